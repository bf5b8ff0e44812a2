//! A sheet of paper: the title, the legend above the data, and panels with axes and a grid.

use plotters::chart::ChartBuilder;
use plotters::coord::cartesian::Cartesian2d;
use plotters::element::{Rectangle, Text};
use plotters::prelude::{DrawingArea, IntoDrawingArea, SVGBackend, WHITE};
use plotters::style::{Color, FontTransform, ShapeStyle};

use super::FigureError;
use super::axis::Axis;
use super::look::{
    Area, GRID, INK, Look, Mark, PALE_INK, SCALE, bold_text, centred, draw_block, draw_line, draw_mark, px,
    text, width_of,
};

/// Around everything.
pub(super) const MARGIN: i32 = 12;
/// At the left of a panel: the numbers of the y axis and what they mean.
pub(super) const LEFT: i32 = 72;
/// At the right of a panel: half of the last number of the x axis.
pub(super) const RIGHT: i32 = 30;
/// Below a panel: the numbers of the x axis and what they mean.
pub(super) const BOTTOM: i32 = 54;
/// Above a panel, if it has one.
pub(super) const HEADING: i32 = 30;

const TITLE_HEIGHT: i32 = 38;
const LEGEND_ROW: i32 = 20;
const SAMPLE_WIDTH: i32 = 30;
const LEGEND_GAP: i32 = 24;

const TITLE_SIZE: i32 = 15;
const LABEL_SIZE: i32 = 12;
const TICK_SIZE: i32 = 11;

/// A longer name is cut: a figure has only so much room.
const NAME_LIMIT: usize = 24;

/// What stands before a name in the legend.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sample {
    Nothing,
    Block(Look),
    Line(Look),
    Marked(Look, Mark),
}

/// An entry of the legend.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) sample: Sample,
    pub(super) name: String,
}

impl Key {
    pub(super) fn new(sample: Sample, name: impl Into<String>) -> Self {
        Self { sample, name: name.into() }
    }

    fn sample_width(&self) -> i32 {
        match self.sample {
            Sample::Nothing => 0,
            Sample::Block(_) => 18,
            Sample::Line(_) | Sample::Marked(..) => SAMPLE_WIDTH + 6,
        }
    }

    fn width(&self) -> i32 {
        self.sample_width() + width_of(&self.name, LABEL_SIZE) + LEGEND_GAP
    }

    /// Draws it from this point on, in pixels of the figure.
    fn draw(&self, area: &Area<'_>, (x, y): (i32, i32)) -> Result<(), FigureError> {
        let ends = [(px(x), px(y)), (px(x + SAMPLE_WIDTH), px(y))];
        match &self.sample {
            Sample::Nothing => {}
            Sample::Block(look) => draw_block(area, [(px(x), px(y - 6)), (px(x + 12), px(y + 6))], look)?,
            Sample::Line(look) => draw_line(area, &ends, look)?,
            Sample::Marked(look, mark) => {
                draw_line(area, &ends, look)?;
                draw_mark(area, (px(x + SAMPLE_WIDTH / 2), px(y)), *mark, look)?;
            }
        }
        area.draw_text(&self.name, &text(LABEL_SIZE, INK), (px(x + self.sample_width()), px(y)))?;
        Ok(())
    }
}

/// A name as it can stand in a figure: XML knows no control characters, and there is only so much room.
pub(super) fn tidy_name(name: &str) -> String {
    let is_text = |c: &char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    let clean: String = name.chars().filter(is_text).collect();
    if clean.chars().count() <= NAME_LIMIT {
        return clean;
    }
    clean.chars().take(NAME_LIMIT - 1).chain(['…']).collect()
}

/// A whole figure.
#[derive(Debug)]
pub(super) struct Sheet<'t> {
    pub(super) title: &'t str,
    /// In pixels.
    pub(super) width: i32,
    /// In pixels, without title and legend.
    pub(super) height: i32,
    pub(super) keys: Vec<Key>,
}

impl Sheet<'_> {
    /// Draws title and legend, lets `body` draw the rest, and gives the SVG.
    pub(super) fn draw(
        &self,
        body: impl FnOnce(&Area<'_>) -> Result<(), FigureError>,
    ) -> Result<String, FigureError> {
        let places = self.legend();
        let head = TITLE_HEIGHT + places.last().map_or(6, |(_, y)| y + LEGEND_ROW + 10);
        let (width, height) = (self.width, head + self.height);
        let mut svg = String::new();
        {
            let size = (px(width).unsigned_abs(), px(height).unsigned_abs());
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            root.fill(&WHITE)?;
            root.draw_text(self.title, &bold_text(TITLE_SIZE), (px(MARGIN), px(MARGIN + 9)))?;
            for (key, (x, y)) in self.keys.iter().zip(&places) {
                key.draw(&root, (*x, TITLE_HEIGHT + LEGEND_ROW / 2 + y))?;
            }
            body(&root.margin(px(head), 0, 0, 0))?;
            root.present()?;
        }
        let drawn = format!("width=\"{}\" height=\"{}\"", width * SCALE, height * SCALE);
        Ok(svg.replacen(&drawn, &format!("width=\"{width}\" height=\"{height}\""), 1))
    }

    /// Where the entries of the legend go, in as many rows as they need.
    fn legend(&self) -> Vec<(i32, i32)> {
        let (mut x, mut y) = (MARGIN, 0);
        let mut places = Vec::new();
        for key in &self.keys {
            if x > MARGIN && x + key.width() - LEGEND_GAP > self.width - MARGIN {
                (x, y) = (MARGIN, y + LEGEND_ROW);
            }
            places.push((x, y));
            x += key.width();
        }
        places
    }
}

/// Text with its middle at this point of an area, in pixels of the figure.
pub(super) fn draw_label(area: &Area<'_>, label: &str, (x, y): (i32, i32)) -> Result<(), FigureError> {
    area.draw_text(label, &centred(&text(LABEL_SIZE, INK)), (px(x), px(y)))?;
    Ok(())
}

/// The same, to be read upwards.
pub(super) fn draw_upright_label(
    area: &Area<'_>,
    label: &str,
    (x, y): (i32, i32),
) -> Result<(), FigureError> {
    let style = centred(&text(LABEL_SIZE, INK)).transform(FontTransform::Rotate270);
    area.draw_text(label, &style, (px(x), px(y)))?;
    Ok(())
}

/// One chart of a figure. What another panel says for all need not be said again.
#[derive(Debug)]
pub(super) struct Panel<'t> {
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) x_label: Option<&'t str>,
    pub(super) y_label: Option<&'t str>,
    pub(super) has_x_numbers: bool,
    pub(super) has_y_numbers: bool,
    pub(super) has_vertical_grid: bool,
    /// With the look of all that is in the panel, if it has one.
    pub(super) heading: Option<(&'t str, Option<Look>)>,
}

impl Panel<'_> {
    pub(super) fn new(x: Axis, y: Axis) -> Self {
        Self {
            x,
            y,
            x_label: None,
            y_label: None,
            has_x_numbers: true,
            has_y_numbers: true,
            has_vertical_grid: true,
            heading: None,
        }
    }

    /// Draws heading, grid and axes. Place and size, in pixels of the figure, are those of what is between the axes.
    pub(super) fn draw<'a>(
        &self,
        area: &Area<'a>,
        (left, top): (i32, i32),
        (width, height): (i32, i32),
    ) -> Result<Plot<'a>, FigureError> {
        self.draw_heading(area, (left, top))?;
        let outer = (px(width + LEFT - MARGIN), px(height + BOTTOM - MARGIN));
        let body = area.clone().shrink((px(left - LEFT + MARGIN), px(top)), outer);
        let mut chart = ChartBuilder::on(&body)
            .x_label_area_size(px(BOTTOM - MARGIN))
            .y_label_area_size(px(LEFT - MARGIN))
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        let mut mesh = chart.configure_mesh();
        mesh.bold_line_style(ShapeStyle::from(GRID).stroke_width(4))
            .axis_style(ShapeStyle::from(INK).stroke_width(4))
            .label_style(text(TICK_SIZE, INK))
            .axis_desc_style(text(LABEL_SIZE, INK))
            .set_all_tick_mark_size(px(4));
        if let Some(label) = self.x_label {
            mesh.x_desc(label);
        }
        if let Some(label) = self.y_label {
            mesh.y_desc(label);
        }
        if !self.has_vertical_grid {
            mesh.disable_x_mesh();
        }
        if !self.has_x_numbers {
            mesh.disable_x_axis();
        }
        if !self.has_y_numbers {
            mesh.disable_y_axis();
        }
        mesh.draw()?;
        Ok(Plot { paper: area.use_screen_coord(), area: chart.plotting_area().clone() })
    }

    fn draw_heading(&self, area: &Area<'_>, (left, top): (i32, i32)) -> Result<(), FigureError> {
        let Some((name, look)) = self.heading else { return Ok(()) };
        let key = Key::new(look.map_or(Sample::Nothing, Sample::Block), name);
        key.draw(area, (left, top - 14))
    }
}

/// Axes that wait for data.
pub(super) struct Plot<'a> {
    /// Marks may reach beyond the axes.
    paper: Area<'a>,
    area: DrawingArea<SVGBackend<'a>, Cartesian2d<Axis, Axis>>,
}

impl Plot<'_> {
    pub(super) fn line(&self, points: &[(f64, f64)], look: &Look) -> Result<(), FigureError> {
        let points: Vec<_> = points.iter().map(|point| self.area.map_coordinate(point)).collect();
        draw_line(&self.paper, &points, look)
    }

    pub(super) fn mark(&self, point: (f64, f64), mark: Mark, look: &Look) -> Result<(), FigureError> {
        draw_mark(&self.paper, self.area.map_coordinate(&point), mark, look)
    }

    pub(super) fn block(&self, corners: [(f64, f64); 2], look: &Look) -> Result<(), FigureError> {
        let corners = corners.map(|corner| self.area.map_coordinate(&corner));
        draw_block(&self.paper, corners, look)
    }

    /// Says that there is nothing to show.
    pub(super) fn no_data(&self) -> Result<(), FigureError> {
        let (columns, rows) = self.area.get_pixel_range();
        let (x, y) = (i32::midpoint(columns.start, columns.end), i32::midpoint(rows.start, rows.end));
        // Not crossed out by the grid.
        let around = [(x - px(30), y - px(9)), (x + px(30), y + px(9))];
        self.paper.draw(&Rectangle::new(around, WHITE.filled()))?;
        self.paper.draw(&Text::new("no data", (x, y), centred(&text(LABEL_SIZE, PALE_INK))))?;
        Ok(())
    }
}
