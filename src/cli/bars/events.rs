//! What happens, as a line of JSON each.

use serde_json::json;
use stroll::fetch::engine;
use stroll::jobs::pull::{Event, Fate};

use super::chain;

/// Why a file starts anew; `None` if nothing is lost by it.
pub(super) fn restarted(why: engine::Restart) -> Option<&'static str> {
    match why {
        engine::Restart::Changed => Some("the source has another version"),
        engine::Restart::NoResume => Some("the source does not support resuming"),
        engine::Restart::Fresh => {
            Some("it was less than a minute old, so another version would not be noticed")
        }
        engine::Restart::JustWritten => None,
    }
}

/// What changed about the size of what a slot is to bring.
pub(super) fn change_as_json(event: &Event<'_>) -> Option<serde_json::Value> {
    let Event::Budgeted { plan } = event else { return None };
    let change = plan.change.as_ref()?;
    Some(json!({"event": "chunk", "from": change.from, "to": change.to, "reason": change.reason}))
}

/// The object of one event; `None` for those that come too often.
pub(super) fn as_json(event: &Event<'_>) -> Option<serde_json::Value> {
    Some(match event {
        Event::Began { index, address } => {
            json!({"event": "began", "file": index, "url": address.to_string()})
        }
        Event::File { index, event } => match event {
            engine::Event::Opened { size, have } => {
                json!({"event": "opened", "file": index, "size": size, "have": have})
            }
            engine::Event::Bytes(_) => return None,
            engine::Event::Restarted(why) => {
                json!({"event": "restarted", "file": index, "reason": restarted(*why)})
            }
            engine::Event::WasCut(cut) => {
                json!({"event": "cut", "file": index, "connection": format!("{cut:?}").to_lowercase()})
            }
            engine::Event::Surplus(why) => json!({"event": "surplus", "file": index, "error": why}),
        },
        Event::Ended { index, fate } => match fate {
            Fate::Pulled { size, .. } => json!({"event": "pulled", "file": index, "size": size}),
            Fate::UpToDate(_) => json!({"event": "up_to_date", "file": index}),
            Fate::NotMeant => json!({"event": "not_meant", "file": index}),
            Fate::Planned { size } => json!({"event": "planned", "file": index, "size": size}),
            Fate::Failed(error) => json!({"event": "failed", "file": index, "error": chain(error)}),
            Fate::Interrupted => json!({"event": "interrupted", "file": index}),
        },
        Event::Waiting { expected } => {
            json!({"event": "waiting", "expected_s": expected.map(|wait| wait.as_secs_f64())})
        }
        Event::Listed { address, entries } => {
            json!({"event": "listed", "url": address.to_string(), "entries": entries})
        }
        Event::SlotBegan => json!({"event": "slot"}),
        Event::Budgeted { plan } => json!({
            "event": "budget",
            "bytes": plan.budget,
            "slot_carries": plan.capacity,
            "interval_s": plan.interval.map(|interval| interval.as_secs_f64()),
        }),
        Event::SlotEnded { bytes, chunk, overload } => {
            let overload = overload.map(|overload| overload.to_string());
            json!({"event": "slot_ended", "bytes": bytes, "chunk": chunk, "overload": overload})
        }
        Event::Idle { wait } => json!({"event": "idle", "wait_s": wait.map(|wait| wait.as_secs_f64())}),
        Event::Pausing { wait, fault } => {
            json!({"event": "pausing", "wait_s": wait.as_secs_f64(), "why": fault.to_string()})
        }
    })
}
