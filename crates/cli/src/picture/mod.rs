//! Pictures: SVG circles, timelines and fabric maps, and the HTML report that holds them.
//!
//! Everything here is a pure function from the plain structs of [`view`] to a string; the same
//! input gives the same bytes. A picture is an [`svg::Svg`]: `document()` is a file that stands
//! alone, `fragment()` goes into an HTML page that carries [`style::stylesheet`] and
//! [`style::patterns`] once. No text from outside reaches the output unescaped: names pass
//! through [`text`] and every writer escapes.
pub(crate) mod axis;
pub(crate) mod circles;
pub(crate) mod demand;
pub(crate) mod fabric_map;
pub(crate) mod palette;
pub(crate) mod polar;
pub(crate) mod quantity;
pub(crate) mod report;
pub(crate) mod style;
pub(crate) mod svg;
pub(crate) mod text;
pub(crate) mod timeline;
pub(crate) mod view;

#[cfg(test)]
mod samples;
