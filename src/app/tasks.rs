//! The background tasks in one set: the server does not run on without one of them.

use std::collections::HashMap;
use std::future::{Future, pending};

use tokio::sync::watch;
use tokio::task::{Id, JoinSet};

/// A task ended before the shutdown.
#[derive(Debug, thiserror::Error)]
#[error("the task \"{task}\" {how}: the server must be started again")]
pub(crate) struct TaskEnded {
    task: &'static str,
    how: &'static str,
}

/// The tasks of the server. Dropping the set ends them at once.
#[derive(Debug)]
pub(super) struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, &'static str>,
    draining: watch::Receiver<bool>,
}

impl Tasks {
    /// No task yet. `draining` turns true when all must end.
    pub(super) fn new(draining: watch::Receiver<bool>) -> Self {
        Self {
            running: JoinSet::new(),
            names: HashMap::new(),
            draining,
        }
    }

    /// Runs a task, which is cancelled when draining begins.
    pub(super) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut draining = self.draining.clone();
        self.spawn_draining(name, async move {
            tokio::select! {
                () = task => {}
                _ = draining.wait_for(|draining| *draining) => {}
            }
        });
    }

    /// Runs a task that ends by itself some time after draining has begun.
    pub(super) fn spawn_draining(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = self.running.spawn(task);
        self.names.insert(task.id(), name);
    }

    /// Waits until a task ends.
    pub(super) async fn ended(&mut self) -> TaskEnded {
        let (id, how) = match self.running.join_next_with_id().await {
            None => return pending().await,
            Some(Ok((id, ()))) => (id, "has ended"),
            Some(Err(error)) => (error.id(), "has panicked"),
        };
        TaskEnded {
            task: self.names.get(&id).copied().unwrap_or("unnamed"),
            how,
        }
    }

    /// Waits until all tasks have ended.
    pub(super) async fn all_ended(mut self) {
        while self.running.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_returns_or_panics_is_named() {
        let draining = watch::Sender::new(false);
        let mut tasks = Tasks::new(draining.subscribe());
        tasks.spawn("runs on", pending());
        tasks.spawn("stops", async {});
        let told = tasks.ended().await.to_string();
        assert!(told.contains("\"stops\" has ended"), "{told}");
        tasks.spawn("breaks", async { panic!("a fault") });
        let told = tasks.ended().await.to_string();
        assert!(told.contains("\"breaks\" has panicked"), "{told}");
        draining.send_replace(true);
        tasks.all_ended().await;
    }
}
