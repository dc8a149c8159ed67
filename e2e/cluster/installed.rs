//! Control planes with the objects of `manifests/` and the service's namespace. One test
//! after another uses each.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::install::install;
use super::lab::TEAM;
use crate::controlplane::{ControlPlane, Extent};

/// Those that no test uses now.
static FREE: Mutex<Vec<Free>> = Mutex::new(Vec::new());

/// How long a free one waits for the next test: its programs are never idle.
const IDLE: Duration = Duration::from_secs(20);

/// A control plane, and its cluster-scoped objects before the first test.
struct Free {
    plane: ControlPlane,
    objects: BTreeSet<String>,
    since: Instant,
}

fn free() -> MutexGuard<'static, Vec<Free>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends those that no test has used for some time.
fn end_idle() {
    std::thread::sleep(IDLE);
    free().retain(|it| it.since.elapsed() < IDLE);
}

/// Cluster-scoped kinds of which tests create objects.
const WIDE: &str = "apiservice,clusterrole,clusterrolebinding,customresourcedefinition,node";

/// Kinds of which tests create objects in the service's namespace.
const INNER: &str = "deployment,statefulset,pod,service,horizontalpodautoscaler,resourcequota,\
                     role,rolebinding,serviceaccount";

/// A control plane that a test uses. The next test gets it, unless this one fails.
#[derive(Debug)]
pub(super) struct Installed {
    /// `None` at the end.
    plane: Option<ControlPlane>,
    /// Cluster-scoped objects before the first test.
    objects: BTreeSet<String>,
    /// Whether no other test may use it.
    pub(super) is_changed: bool,
}

impl Installed {
    /// A free control plane without the objects of earlier tests, else another one.
    pub(super) fn take() -> Self {
        loop {
            let last = free().pop();
            let Some(Free { plane, objects, .. }) = last else {
                return Self::new();
            };
            match tidy(&plane, &objects) {
                Ok(()) => return Self::of(plane, objects),
                Err(error) => println!("a control plane is not used again: {error}"),
            }
        }
    }

    fn new() -> Self {
        let plane = ControlPlane::start(Extent::CLUSTER);
        install(&plane);
        plane.kubectl(&["create", "namespace", TEAM]);
        let objects = wide(&plane).unwrap();
        Self::of(plane, objects)
    }

    fn of(plane: ControlPlane, objects: BTreeSet<String>) -> Self {
        Self {
            plane: Some(plane),
            objects,
            is_changed: false,
        }
    }
}

/// The cluster-scoped objects.
fn wide(plane: &ControlPlane) -> Result<BTreeSet<String>, String> {
    let said = plane.kubectl_as(plane.kubeconfig(), &["get", WIDE, "-o", "name"])?;
    Ok(said.lines().map(str::to_owned).collect())
}

/// Deletes the objects of tests.
fn tidy(plane: &ControlPlane, objects: &BTreeSet<String>) -> Result<(), String> {
    let delete = |what: &[&str]| {
        let how = ["delete", "--cascade=foreground", "--timeout=60s"];
        plane.kubectl_as(plane.kubeconfig(), &[&how[..], what].concat())
    };
    delete(&[INNER, "--all", "-n", TEAM])?;
    let now = wide(plane)?;
    if let Some(missing) = objects.difference(&now).next() {
        return Err(format!("{missing} is missing"));
    }
    let more: Vec<&str> = now.difference(objects).map(String::as_str).collect();
    match more.is_empty() {
        true => Ok(()),
        false => delete(&more).map(drop),
    }
}

impl Deref for Installed {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.plane.as_ref().unwrap()
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let plane = self.plane.take();
        if !self.is_changed && !std::thread::panicking() {
            free().extend(plane.map(|plane| Free {
                plane,
                objects: std::mem::take(&mut self.objects),
                since: Instant::now(),
            }));
            std::thread::spawn(end_idle);
        }
    }
}
