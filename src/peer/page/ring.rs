//! The circle as a picture: members around it, this one at the top, and the token's last ways in and out of here.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::fmt::Write as _;

use super::View;
use super::html::{by_name, escape};

pub(super) const SIZE: f64 = 360.0;
pub(super) const RADIUS: f64 = 140.0;

/// Ways of the token that are drawn; older ones fade.
const WAYS: usize = 12;

/// How far ways there and back bow apart.
const ASIDE: f64 = 16.0;

/// Names that fit around the circle; of more members only dots are drawn.
pub(super) const NAMED: usize = 24;

/// What of a name fits there; pointing at a member tells all of it.
const LETTERS: usize = 12;

pub(super) fn ring(view: &View) -> String {
    let status = &view.status;
    let others = by_name(&status.members);
    let count = others.len() + 1;
    let mut places = BTreeMap::from([(status.member.as_str(), place(0, count))]);
    for (index, member) in others.iter().enumerate() {
        places.insert(member.member.as_str(), place(index + 1, count));
    }
    let mut out = format!(
        r#"<svg class="ring" viewBox="0 0 {SIZE} {SIZE}" role="img" aria-label="the circle and the token's last ways"><circle class="round" cx="{c}" cy="{c}" r="{RADIUS}"/>"#,
        c = SIZE / 2.0,
    );
    let own = place(0, count);
    let visits = view.past.visits.iter().rev().take(WAYS);
    for (age, visit) in visits.enumerate() {
        let faded = 1.0 - age as f64 / WAYS as f64;
        if let Some(from) = visit.from.as_deref().and_then(|from| places.get(from)) {
            way(&mut out, *from, own, "in", faded);
        }
        if let Some(to) = visit.to.as_deref().and_then(|to| places.get(to)) {
            way(&mut out, own, *to, "out", faded);
        }
    }
    let class = if status.token.is_some() { "self holds" } else { "self" };
    member(&mut out, own, class, &status.name, true);
    for other in others {
        if let Some(at) = places.get(other.member.as_str()) {
            let class = if other.suspected { "other suspected" } else { "other" };
            member(&mut out, *at, class, &other.name, count <= NAMED);
        }
    }
    out.push_str("</svg>");
    out
}

pub(super) fn place(index: usize, count: usize) -> (f64, f64) {
    let angle = TAU * index as f64 / count as f64;
    (SIZE / 2.0 + RADIUS * angle.sin(), SIZE / 2.0 - RADIUS * angle.cos())
}

/// A bow towards the middle, and a little to the left of its direction, so that ways there and back do not cover each
/// other, not even those straight through the middle.
fn way(out: &mut String, from: (f64, f64), to: (f64, f64), class: &str, faded: f64) {
    let middle = SIZE / 2.0;
    let bend = |a: f64, b: f64| f64::midpoint(a, b).midpoint(middle);
    let (ahead, down) = (to.0 - from.0, to.1 - from.1);
    let length = ahead.hypot(down).max(1.0);
    let (x, y) = (bend(from.0, to.0) + down / length * ASIDE, bend(from.1, to.1) - ahead / length * ASIDE);
    let _ = write!(
        out,
        r#"<path class="way {class}" opacity="{faded:.2}" d="M{:.1} {:.1} Q{x:.1} {y:.1} {:.1} {:.1}"/>"#,
        from.0, from.1, to.0, to.1
    );
}

pub(super) fn member(out: &mut String, (x, y): (f64, f64), class: &str, name: &str, is_named: bool) {
    let (short, name) = (escape(&shortened(name)), escape(name));
    let _ = write!(
        out,
        r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="7"><title>{name}</title></circle>"#
    );
    if is_named {
        let outward = if y < SIZE / 2.0 { -12.0 } else { 20.0 };
        let _ = write!(out, r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{short}</text>"#, y + outward);
    }
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or(name)),
        None => name.to_owned(),
    }
}
