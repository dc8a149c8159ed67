//! Which reading of a device counts at an instant.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::fold::Answer;
use super::lines::{Device, Field, Line, Standing};
use super::{Reading, Reference, Row, STEP_MS, View};

/// What a device may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    Memory,
    Kernels,
    Used,
    UsedPercent,
    Power,
    /// Memory of whole cards, as the original read it.
    MemCopy,
}

impl Quantity {
    fn field(self, is_instance: bool) -> Field {
        match self {
            Self::Memory if is_instance => Field::Dram,
            Self::Memory | Self::MemCopy => Field::MemCopy,
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
            for (at, raw) in line.samples.iter().filter(|(at, _)| *at > self.oldest()) {
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
        for instant in self.instant_from(self.oldest())..=self.instant_from(self.now) {
            let mut said: BTreeMap<Field, BTreeSet<bool>> = BTreeMap::new();
            for line in lines {
                let newest = line.newest(instant * STEP_MS, self.fresh_ms);
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
    fn field(&self, row: &Row, field: Field, instant: i64) -> Option<Reading> {
        let (_, cell) = row.cells.get(&field)?.range(..=instant).next_back()?;
        cell.filter(|(_, at)| instant * STEP_MS - at < row.target.fresh_ms)
    }

    /// Whether a row had a reading of a field up to an instant, however old.
    fn had(&self, row: &Row, field: Field, instant: i64) -> bool {
        let cells = row.cells.get(&field);
        cells.is_some_and(|cells| cells.range(..=instant).any(|(_, cell)| cell.is_some()))
    }

    /// Whether PromQL says something else of a row at an instant: it does not know
    /// what took the place of a device, and takes what is reserved for nothing
    /// where it is not known.
    pub(super) fn is_past_promql(&self, id: usize, instant: i64) -> bool {
        let row = &self.rows[id];
        let unknown = |field| self.field(row, field, instant).is_none();
        let lacks_reserved = unknown(Field::Reserved) && !unknown(Field::Used);
        let lines = || self.of_device[&row.device].iter().map(|id| &self.rows[*id]);
        row.mixed.contains(&instant)
            || row.target.fresh_ms != self.view.fresh_ms
            || self.is_replaced(row, instant * STEP_MS)
            || lacks_reserved && lines().any(|line| self.had(line, Field::Reserved, instant))
    }

    /// Whether another device has taken the place of a row's up to a time.
    pub(super) fn is_replaced(&self, row: &Row, until: i64) -> bool {
        let Some(rivals) = self.rivals.get(&row.device) else {
            return false;
        };
        let heard = |device: &Device| {
            let rows = self.of_device.get(device).into_iter().flatten();
            rows.map(|id| self.rows[*id].heard)
        };
        let newest = heard(&row.device).map(|(_, newest)| newest).max();
        let first = |rival| heard(rival).map(|(first, _)| first).min();
        let mut first = rivals.iter().filter_map(first);
        first.any(|first| Some(first) > newest && first <= until)
    }

    /// What a row says of its device, whoever holds it now.
    fn said(&self, id: usize, quantity: Quantity, instant: i64) -> Option<Answer> {
        let row = &self.rows[id];
        let field = quantity.field(row.device.1.is_some());
        let (value, at) = self.field(row, field, instant)?;
        let mut answer = Answer {
            value,
            at,
            weight: 1.0,
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
            let rows = self.of_device[&row.device].iter();
            let mut rows = rows.map(|id| &self.rows[*id]);
            let reserved = ask(Field::Reserved).or_else(|| of_device(Field::Reserved));
            let reserved = match reserved {
                Some((reserved, _)) => reserved,
                None if rows.any(|row| self.had(row, Field::Reserved, instant)) => return None,
                None => 0.0,
            };
            answer.weight = ask(Field::Used)?.0.max(value) + ask(Field::Free)?.0 + reserved;
            if answer.weight <= 0.0 {
                return None;
            }
            answer.value = 100.0 * value / answer.weight;
        }
        Some(answer)
    }

    /// The same, unless another device has its place, or the pod has gone and a
    /// newer line of its target names another holder.
    fn counted(&self, id: usize, quantity: Quantity, instant: i64) -> Option<Answer> {
        let answer = self.said(id, quantity, instant)?;
        let row = &self.rows[id];
        if self.is_replaced(row, instant * STEP_MS) {
            return None;
        }
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
        // The labels of a pod that lives may have gone.
        let lost_labels = |id: &usize| {
            let row = &self.rows[*id];
            let is_held = row.standing == Standing::Held && !row.share;
            is_held && row.heard.0.max(row.started) <= newest
        };
        best.held = as_new().any(|answer| answer.held) || rows.iter().any(lost_labels);
        let is_split = matches!(
            quantity,
            Quantity::Kernels | Quantity::Used | Quantity::UsedPercent
        );
        // Older exporters repeat the device's reading in lines of processes, and have
        // no line of its own beside them.
        let is_own = |id: &usize| {
            let own = self.counted(*id, quantity, instant);
            self.rows[*id].standing == Standing::Nobody && own.is_some_and(|own| own.at == newest)
        };
        let is_share = || self.rows[best.row].share && self.of_device[device].iter().any(is_own);
        if is_split && rows.len() > 1 && is_share() {
            let is_whole = |answer: &&Answer| self.rows[answer.row].standing == Standing::Nobody;
            let whole = as_new().find(is_whole);
            let sum = || as_new().map(|answer| answer.value).sum();
            best.value = whole.map_or_else(sum, |whole| whole.value);
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
    pub(super) fn last(&self, id: usize, quantity: Quantity, until: i64) -> Option<Answer> {
        let row = &self.rows[id];
        let newest = |field: Field| {
            let cells = row.cells.get(&field)?;
            cells.range(..=until).rev().find_map(|(_, cell)| *cell)
        };
        let (value, at) = newest(quantity.field(row.device.1.is_some()))?;
        let mut last = Answer {
            value,
            at,
            weight: 1.0,
            held: is_held(row),
            row: id,
        };
        if quantity == Quantity::UsedPercent {
            let reserved = newest(Field::Reserved).map_or(0.0, |reading| reading.0);
            last.weight = value + newest(Field::Free)?.0 + reserved;
            last.value = 100.0 * value / last.weight;
        }
        (last.weight > 0.0).then_some(last)
    }
}

/// Whether a pod held the device when it was read.
pub(super) fn is_held(row: &Row) -> bool {
    matches!(row.standing, Standing::Held | Standing::Gone)
}
