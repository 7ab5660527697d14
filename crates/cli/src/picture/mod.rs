//! Pictures: SVG circles, timelines and fabric maps, and the HTML report that holds them.
