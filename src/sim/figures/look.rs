//! How things look: colours that the colour-blind tell apart, dashes and marks that survive grey print, fonts.
//!
//! Lengths are drawn four times as large and the whole is scaled down again, because the backend knows only whole
//! pixels and curves would have steps.

use plotters::coord::Shift;
use plotters::element::{DashedPathElement, PathElement, Polygon, Rectangle};
use plotters::prelude::{DrawingArea, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, IntoFont, RGBColor, ShapeStyle, TextStyle};

use super::FigureError;

/// A piece of paper to draw on.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(super) const SCALE: i32 = 4;

pub(super) const INK: RGBColor = RGBColor(0x26, 0x26, 0x26);
pub(super) const PALE_INK: RGBColor = RGBColor(0x80, 0x80, 0x80);
pub(super) const GRID: RGBColor = RGBColor(0xE4, 0xE4, 0xE4);

// The palette of Okabe and Ito, without its yellow, which is too pale for a line on white. The grey is as dark as it is
// because in grey print the lighter ones look like green or orange.
const ORANGE: RGBColor = RGBColor(0xE6, 0x9F, 0x00);
const SKY: RGBColor = RGBColor(0x56, 0xB4, 0xE9);
const GREEN: RGBColor = RGBColor(0x00, 0x9E, 0x73);
const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xB2);
const VERMILION: RGBColor = RGBColor(0xD5, 0x5E, 0x00);
const PURPLE: RGBColor = RGBColor(0xCC, 0x79, 0xA7);
const GREY: RGBColor = RGBColor(0x55, 0x55, 0x55);
const BLACK: RGBColor = RGBColor(0x00, 0x00, 0x00);

/// As drawn: a length in the figure's pixels becomes one of the backend's.
pub(super) const fn px(length: i32) -> i32 {
    length * SCALE
}

/// How a line, its marks or its bars look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    pub(super) colour: RGBColor,
    /// Dash and gap in pixels; `None` for a solid line.
    pub(super) dash: Option<(i32, i32)>,
    /// In quarters of a pixel.
    pub(super) stroke: u32,
}

const fn look(colour: RGBColor, dash: Option<(i32, i32)>) -> Look {
    Look { colour, dash, stroke: 8 }
}

impl Look {
    /// For what is not data itself but belongs to it.
    pub(super) fn thin(self) -> Self {
        Self { dash: REFERENCE.dash, stroke: REFERENCE.stroke, ..self }
    }

    /// For lines that are as dense as hair.
    pub(super) fn fine(self) -> Self {
        Self { dash: None, stroke: 5, ..self }
    }
}

/// A thin line that is not data.
pub(super) const REFERENCE: Look = Look { colour: INK, dash: Some((4, 3)), stroke: 4 };

/// For rules of which we do not know.
const OTHERS: [Look; 4] =
    [look(VERMILION, Some((10, 3))), look(PURPLE, None), look(SKY, Some((5, 3))), look(BLACK, Some((2, 2)))];

/// The looks of rule sets by their names; unknown ones take turns.
pub(super) fn looks_of<'t>(names: impl IntoIterator<Item = &'t str>) -> Vec<Look> {
    let mut others = OTHERS.iter().cycle();
    let known = |name| match name {
        "uncoordinated" => Some(look(GREY, Some((2, 2)))),
        "early" => Some(look(ORANGE, Some((10, 3)))),
        "classic" => Some(look(BLUE, Some((5, 3)))),
        "guarded" => Some(look(GREEN, None)),
        _ => None,
    };
    let next = |name| known(name).or_else(|| others.next().copied()).unwrap_or(REFERENCE);
    names.into_iter().map(next).collect()
}

/// The looks of memberships, from few members to many; the fourth of six is the full circle.
pub(super) const GRADES: [Look; 6] = [
    look(SKY, None),
    look(GREEN, None),
    look(BLUE, Some((5, 3))),
    look(BLACK, None),
    look(ORANGE, Some((5, 3))),
    look(VERMILION, None),
];

/// The shape of a mark on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Square,
    Diamond,
    Triangle,
    TriangleDown,
}

/// The looks of 0, 1, 2 and more members pulling, in colours that no rule set has.
pub(super) const COUNTS: [(Look, Mark); 4] = [
    (look(SKY, None), Mark::Diamond),
    (look(BLACK, None), Mark::Square),
    (look(PURPLE, None), Mark::Triangle),
    (look(VERMILION, None), Mark::TriangleDown),
];

/// Draws a line through points of the backend.
pub(super) fn draw_line(area: &Area<'_>, points: &[(i32, i32)], look: &Look) -> Result<(), FigureError> {
    let style = ShapeStyle::from(look.colour).stroke_width(look.stroke);
    let points = thinned(points);
    match look.dash {
        None => area.draw(&PathElement::new(points, style))?,
        Some((dash, gap)) => area.draw(&DashedPathElement::new(points, px(dash), px(gap), style))?,
    }
    Ok(())
}

/// What is left of a line if every column of pixels keeps only where the line enters, its ends, and where it leaves.
/// A run of a million events then fits into a figure, and looks the same.
fn thinned(points: &[(i32, i32)]) -> Vec<(i32, i32)> {
    let mut kept = Vec::new();
    for column in points.chunk_by(|a, b| a.0 == b.0) {
        let (mut near, mut far) = (column.iter().min(), column.iter().max());
        // Not forth, back and forth again: dashes would fill each other's gaps.
        if column.first() > column.last() {
            (near, far) = (far, near);
        }
        kept.extend([column.first(), near, far, column.last()].into_iter().flatten().copied());
    }
    kept.dedup();
    kept
}

/// Draws a mark at a point of the backend.
pub(super) fn draw_mark(area: &Area<'_>, at: (i32, i32), mark: Mark, look: &Look) -> Result<(), FigureError> {
    let corners: &[(i32, i32)] = match mark {
        Mark::Square => &[(-11, -11), (11, -11), (11, 11), (-11, 11)],
        Mark::Diamond => &[(0, -15), (15, 0), (0, 15), (-15, 0)],
        Mark::Triangle => &[(0, -15), (14, 10), (-14, 10)],
        Mark::TriangleDown => &[(0, 15), (14, -10), (-14, -10)],
    };
    let corners: Vec<_> = corners.iter().map(|corner| (at.0 + corner.0, at.1 + corner.1)).collect();
    area.draw(&Polygon::new(corners, look.colour.filled()))?;
    Ok(())
}

/// Fills a rectangle between two corners of the backend.
pub(super) fn draw_block(area: &Area<'_>, corners: [(i32, i32); 2], look: &Look) -> Result<(), FigureError> {
    area.draw(&Rectangle::new(corners, look.colour.filled()))?;
    Ok(())
}

/// Text of this size in pixels, anchored at the left and vertically centred.
pub(super) fn text(size: i32, colour: RGBColor) -> TextStyle<'static> {
    // The backend divides sizes by this number.
    let font = ("sans-serif", f64::from(px(size)) * 1.24).into_font();
    TextStyle { font, color: colour.to_backend_color(), pos: Pos::new(HPos::Left, VPos::Center) }
}

pub(super) fn bold_text(size: i32) -> TextStyle<'static> {
    let style = text(size, INK);
    TextStyle { font: style.font.style(FontStyle::Bold), ..style }
}

pub(super) fn centred(style: &TextStyle<'static>) -> TextStyle<'static> {
    style.pos(Pos::new(HPos::Center, VPos::Center))
}

/// About how wide this text is, in pixels. The real font is known only where the figure is shown; most are narrower.
pub(super) fn width_of(text: &str, size: i32) -> i32 {
    let percent = text.chars().map(|c| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ' ' => 32,
        'f' | 'r' | 't' | '(' | ')' | '-' => 40,
        'm' | 'w' | 'M' | 'W' => 90,
        _ => 62,
    });
    size * percent.sum::<i32>() / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_keep_their_colour_in_any_company() {
        let alone = looks_of(["guarded"]);
        let together = looks_of(["mine", "uncoordinated", "yours", "guarded"]);
        assert_eq!(alone.first(), together.last());
        assert_eq!(together.first(), OTHERS.first());
        assert_eq!(together.get(2), OTHERS.get(1));
    }

    #[test]
    fn a_column_of_pixels_keeps_its_ends_only() {
        let zigzag: Vec<_> = (0..1_000).map(|n| (n / 100, n % 7)).collect();
        let kept = thinned(&zigzag);
        assert!(kept.len() <= 4 * 10);
        assert_eq!(kept.iter().map(|point| point.1).max(), Some(6));
        assert_eq!((kept.first(), kept.last()), (zigzag.first(), zigzag.last()));
    }
}
