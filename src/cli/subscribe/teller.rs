//! Tells what happens to a subscription, as it happens.

use std::sync::Mutex;

use serde_json::json;
use stroll::fetch::engine::PullError;
use stroll::fetch::name::shown;
use stroll::fetch::{Fault, escape};
use stroll::jobs::pull::{Event, Fate, Watch};
use stroll::jobs::subscribe::{Delivered, How, Lag, Spec, Tell};

use crate::cli::bars::Bars;

/// Says what happens.
pub(super) struct Teller<'a> {
    bars: &'a Bars,
    /// Files are asked for before they are there.
    expects_gaps: bool,
    /// As it was told last.
    lag: Mutex<Option<Lag>>,
}

impl<'a> Teller<'a> {
    pub(super) fn new(bars: &'a Bars, spec: &Spec) -> Self {
        Self { bars, expects_gaps: matches!(spec.how, How::Named(_)), lag: Mutex::default() }
    }
}

impl Watch for Teller<'_> {
    fn on(&self, event: Event<'_>) {
        match event {
            // A file that is not there yet is nothing to complain about.
            Event::Ended { index, fate: Fate::Failed(PullError::Source(Fault::NotFound(_))) }
                if self.expects_gaps =>
            {
                self.bars.on(Event::Ended { index, fate: &Fate::Interrupted });
            }
            event => self.bars.on(event),
        }
    }
}

impl Tell for Teller<'_> {
    fn lag(&self, lag: Lag) {
        self.bars.note(lag.to_string());
        let mut last = self.lag.lock().expect("nobody panics with the lag in hand");
        // The time since the last look is told when it is long: otherwise there would be something new every second.
        let shown = Lag { unseen: lag.dark().unwrap_or_default(), ..lag };
        if *last != Some(shown) {
            *last = Some(shown);
            let lag_s = lag.behind().map(|behind| behind.as_secs());
            let Lag { files, bytes, unseen, refused, .. } = lag;
            let unseen_s = unseen.as_secs();
            self.bars.event(
                &json!({"event": "lag", "lag_s": lag_s, "files": files, "bytes": bytes, "unseen_s": unseen_s, "refused": refused}),
            );
        }
    }

    fn delivered(&self, delivered: &Delivered<'_>) {
        self.bars.event(&json!({"event": "delivered", "path": shown(&delivered.item.path)}));
    }

    fn hook_failed(&self, path: &str, why: &str, is_skipped: bool) {
        let then = if is_skipped { "skipped" } else { "trying again" };
        self.bars.complain(&format!("{}: the command failed ({}); {then}", escape(path), escape(why)));
    }

    fn trouble(&self, why: &str) {
        self.bars.complain(&format!("{why}; looking again"));
    }

    fn refused(&self, path: &str, why: &str) {
        self.bars.complain(&format!("{path}: not pulled: {why}; leave it out with --exclude"));
        self.bars.event(&json!({"event": "refused", "path": path, "why": why}));
    }

    fn link(&self, path: &str) {
        let path = escape(&shown(path));
        self.bars.complain(&format!("{path}: a symbolic link, which a subscription does not follow"));
        self.bars.event(&json!({"event": "link", "path": path}));
    }

    fn gap(&self, path: &str) {
        self.bars.complain(&format!("{}: never came; skipped", escape(&shown(path))));
    }

    fn rotated(&self, path: &str, kept: Option<&str>) {
        let old = kept.map_or_else(|| "dropped".to_owned(), |kept| format!("kept as {}", escape(kept)));
        self.bars.say(&format!("{}: is another file now; the old replica is {old}", escape(&shown(path))));
    }

    fn flushed(&self, count: u64) {
        self.bars.event(&json!({"event": "flushed", "files": count}));
    }
}
