//! Which reading of a device counts at an instant.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::fold::Answer;
use super::lines::{Device, Field, Line, Standing};
use super::{Reading, Reference, Row, View};

/// What a device may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    Memory,
    Kernels,
    Used,
    UsedPercent,
    Power,
}

impl Quantity {
    fn field(self, is_instance: bool) -> Field {
        match self {
            Self::Memory if is_instance => Field::Dram,
            Self::Memory => Field::MemCopy,
            Self::Kernels if is_instance => Field::Engine,
            Self::Kernels => Field::GpuUtil,
            Self::Used | Self::UsedPercent => Field::Used,
            Self::Power => Field::Power,
        }
    }
}

impl View {
    /// The samples between two instants as one: of one line the newest; of
    /// several the newest that is a reading, of equally new ones the larger.
    pub(super) fn cells(&self, lines: &[Line]) -> HashMap<Field, BTreeMap<i64, Option<Reading>>> {
        let mut cells: HashMap<Field, BTreeMap<i64, Option<Reading>>> = HashMap::new();
        for line in lines {
            let alone = lines.iter().filter(|l| l.field == line.field).count() == 1;
            let of_field = cells.entry(line.field).or_default();
            for (at, raw) in &line.samples {
                let reading = line.field.reading(*raw, self.percent_as_ratio);
                let reading = reading.map(|value| (value, *at));
                let known = of_field.entry(self.instant_from(*at)).or_insert(reading);
                *known = match (alone, *known, reading) {
                    (true, _, reading) | (_, None, reading) => reading,
                    (_, known, None) => known,
                    (_, Some(known), Some(new)) if (new.1, new.0) > (known.1, known.0) => Some(new),
                    (_, known, _) => known,
                };
            }
        }
        cells
    }

    /// Instants at which lines of one field disagree whether there is a reading.
    pub(super) fn mixed(&self, lines: &[Line]) -> BTreeSet<i64> {
        let mut mixed = BTreeSet::new();
        let from = self.instant_from(self.now - self.reach_ms());
        for instant in from..=self.instant_from(self.now) {
            let mut said: BTreeMap<Field, BTreeSet<bool>> = BTreeMap::new();
            for line in lines {
                let newest = line.newest(instant * self.step_ms, self.fresh_ms);
                if let Some((_, raw)) = newest {
                    let reading = line.field.reading(raw, self.percent_as_ratio);
                    said.entry(line.field)
                        .or_default()
                        .insert(reading.is_some());
                }
            }
            if said.values().any(|said| said.len() > 1) {
                mixed.insert(instant);
            }
        }
        mixed
    }
}

impl Reference {
    /// How long a row's reading counts.
    fn hold_ms(&self, row: &Row) -> i64 {
        let distance_ms = row.heard.map_or(0, |heard| heard.distance_ms);
        self.view.fresh_ms + distance_ms
    }

    /// By how much an instant lies ahead of the horizon of a row's source: there
    /// readings are as old as at the horizon.
    fn ahead_ms(&self, row: &Row, instant: i64) -> i64 {
        let step_ms = self.view.step_ms;
        let heard = row.heard.filter(|heard| !heard.silent);
        let horizon = heard.map_or(i64::MAX, |heard| heard.horizon);
        (instant * step_ms)
            .saturating_sub(horizon)
            .clamp(0, step_ms)
    }

    fn field(&self, row: &Row, field: Field, instant: i64) -> Option<Reading> {
        let (_, cell) = row.cells.get(&field)?.range(..=instant).next_back()?;
        let hold_ms = self.hold_ms(row) + self.ahead_ms(row, instant);
        cell.filter(|(_, at)| instant * self.view.step_ms - at < hold_ms)
    }

    /// Whether a row had a reading of a field up to an instant, however old.
    fn had(&self, row: &Row, field: Field, instant: i64) -> bool {
        let cells = row.cells.get(&field);
        cells.is_some_and(|cells| cells.range(..=instant).any(|(_, cell)| cell.is_some()))
    }

    /// Whether PromQL says something else of a row at an instant: it goes by the
    /// age at the instant, and takes what is reserved for nothing where it is
    /// not known. Parts of the framebuffer may be another row's of the device.
    pub(super) fn is_past_promql(&self, id: usize, instant: i64) -> bool {
        let row = &self.rows[id];
        let is_old = |row: &Row, field| {
            let hold_ms = self.hold_ms(row);
            let reading = self.field(row, field, instant);
            reading.is_some_and(|(_, at)| instant * self.view.step_ms - at >= hold_ms)
        };
        if row.cells.keys().any(|field| is_old(row, *field)) {
            return true;
        }
        let unknown = |field| self.field(row, field, instant).is_none();
        let lacks_reserved = unknown(Field::Reserved) && !unknown(Field::Used);
        if !lacks_reserved && !row.share {
            return false;
        }
        let mut others = self.of_device[&row.device].iter().map(|id| &self.rows[*id]);
        others.any(|other| {
            (lacks_reserved && self.had(other, Field::Reserved, instant))
                || [Field::Used, Field::Free, Field::Reserved]
                    .into_iter()
                    .any(|field| is_old(other, field))
        })
    }

    /// What a row says of its device, whoever holds it now.
    fn said(&self, id: usize, quantity: Quantity, instant: i64) -> Option<Answer> {
        let row = &self.rows[id];
        let field = quantity.field(row.device.1.is_some());
        let (value, at) = self.field(row, field, instant)?;
        let mut answer = Answer {
            value,
            at,
            used: 0.0,
            whole: 0.0,
            held: is_held(row),
            row: id,
        };
        if quantity == Quantity::UsedPercent {
            let own = |field| self.field(row, field, instant);
            let of_device = |field| {
                let rows = self.of_device[&row.device].iter();
                let readings = rows.filter_map(|id| self.field(&self.rows[*id], field, instant));
                readings.max_by(|a, b| (a.1, a.0).partial_cmp(&(b.1, b.0)).unwrap())
            };
            let ask = |field| {
                if row.share {
                    of_device(field)
                } else {
                    own(field)
                }
            };
            answer.used = value;
            let rows = self.of_device[&row.device].iter();
            let mut rows = rows.map(|id| &self.rows[*id]);
            let reserved = ask(Field::Reserved).or_else(|| of_device(Field::Reserved));
            let reserved = match reserved {
                Some((reserved, _)) => reserved,
                None if rows.any(|row| self.had(row, Field::Reserved, instant)) => return None,
                None => 0.0,
            };
            answer.whole = ask(Field::Used)?.0.max(value) + ask(Field::Free)?.0 + reserved;
            if answer.whole <= 0.0 {
                return None;
            }
            answer.value = 100.0 * answer.used / answer.whole;
        }
        Some(answer)
    }

    /// The same, unless the pod has gone and a newer line of its target names
    /// another holder.
    fn counted(&self, id: usize, quantity: Quantity, instant: i64) -> Option<Answer> {
        let answer = self.said(id, quantity, instant)?;
        let row = &self.rows[id];
        if row.standing != Standing::Gone && answer.at >= row.started {
            return Some(answer);
        }
        let overtakes = |other: &&usize| {
            let shares_target = !self.rows[**other].targets.is_disjoint(&row.targets);
            **other != id
                && shares_target
                && self
                    .said(**other, quantity, instant)
                    .is_some_and(|said| said.at > answer.at)
        };
        let overtaken = self.of_device[&row.device]
            .iter()
            .any(|other| overtakes(&other));
        (!overtaken).then_some(answer)
    }

    /// One reading of a device: the newest, of equally new ones the larger;
    /// shares of processes are added up. Held if any of the newest lines is a
    /// pod's.
    pub(super) fn answer(
        &self,
        device: &Device,
        rows: &[usize],
        quantity: Quantity,
        instant: i64,
    ) -> Option<Answer> {
        let answers = rows
            .iter()
            .filter_map(|id| self.counted(*id, quantity, instant));
        let answers: Vec<Answer> = answers.collect();
        let newest = answers.iter().map(|answer| answer.at).max()?;
        let as_new = || answers.iter().filter(|answer| answer.at == newest);
        let mut best = *as_new().max_by(|a, b| a.value.total_cmp(&b.value))?;
        best.held = as_new().any(|answer| answer.held);
        let is_split = matches!(
            quantity,
            Quantity::Kernels | Quantity::Used | Quantity::UsedPercent
        );
        // Older exporters repeat the device's reading in lines of processes, and have
        // no line of its own beside them.
        let is_own = |(id, row): (usize, &Row)| {
            let whole = row.device == *device && row.standing == Standing::Nobody;
            whole
                && self
                    .said(id, quantity, instant)
                    .is_some_and(|own| own.at == newest)
        };
        let is_share = self.rows[best.row].share && self.rows.iter().enumerate().any(is_own);
        if is_split && rows.len() > 1 && is_share {
            let is_whole = |answer: &&Answer| self.rows[answer.row].standing == Standing::Nobody;
            let whole = as_new().find(is_whole);
            let sum = |of: fn(&Answer) -> f64| whole.map_or_else(|| as_new().map(of).sum(), of);
            (best.value, best.used) = (sum(|a| a.value), sum(|a| a.used));
        }
        let is_card = device.1.is_none() && quantity != Quantity::Power;
        let instances = self.instances.get(&device.0).filter(|_| is_card);
        let shadowed = instances.is_some_and(|rows| {
            rows.iter()
                .any(|id| self.said(*id, quantity, instant).is_some())
        });
        (!shadowed).then_some(best)
    }

    /// A row's newest reading until an instant, however old.
    pub(super) fn last(&self, id: usize, quantity: Quantity, until: i64) -> Option<Reading> {
        let row = &self.rows[id];
        let newest = |field: Field| {
            let cells = row.cells.get(&field)?;
            cells.range(..=until).rev().find_map(|(_, cell)| *cell)
        };
        let last = newest(quantity.field(row.device.1.is_some()))?;
        if quantity != Quantity::UsedPercent {
            return Some(last);
        }
        let reserved = newest(Field::Reserved).map_or(0.0, |reading| reading.0);
        let whole = last.0 + newest(Field::Free)?.0 + reserved;
        (whole > 0.0).then_some((100.0 * last.0 / whole, last.1))
    }

    /// The largest reading of the fleet at an instant.
    pub(super) fn largest(&self, quantity: Quantity, instant: i64) -> f64 {
        let rows = 0..self.rows.len();
        let readings = rows.filter_map(|id| self.said(id, quantity, instant));
        readings.map(|answer| answer.value).fold(0.0, f64::max)
    }
}

/// Whether a pod held the device when it was read.
pub(super) fn is_held(row: &Row) -> bool {
    matches!(row.standing, Standing::Held | Standing::Gone)
}
