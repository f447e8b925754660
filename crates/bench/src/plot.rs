//! Pictures: lines over a field, as SVG.

use std::path::Path;

use super::BenchError;

/// A picture of some lines.
pub(super) struct Picture<'a> {
    /// What is measured.
    pub title: &'a str,
    /// What both axes show.
    pub axes: &'a str,
    /// Whether heights are shown by their logarithms.
    pub is_logarithmic: bool,
    /// Their names and points.
    pub lines: Vec<(&'a str, Vec<(f64, f64)>)>,
}

/// Width, height and margins of the picture's field.
const FIELD: (f64, f64, f64) = (840.0, 320.0, 60.0);

/// Colours that are told apart by people who see red and green alike, too. Lines of which there are more have them again, dashed.
const COLOURS: [&str; 6] = ["#0072b2", "#e69f00", "#000000", "#009e73", "#cc79a7", "#56b4e9"];

/// Lines across the field, beside that of its foot.
const STEPS: u32 = 4;

impl Picture<'_> {
    /// Writes `FOLDER/NAME.svg`.
    pub fn write(&self, folder: &Path, name: &str) -> Result<(), BenchError> {
        let path = folder.join(format!("{name}.svg"));
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, self.svg()));
        written.map_err(|error| BenchError::File { place: path.display().to_string(), error })
    }

    pub fn svg(&self) -> String {
        let (width, height, margin) = FIELD;
        let title = self.title.replace('&', "&amp;").replace('<', "&lt;");
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let right = points().map(|point| point.0).fold(0.0, f64::max);
        let highest = points().map(|point| point.1).fold(0.0, f64::max) * 1.1;
        let lowest = points().map(|point| point.1).fold(f64::INFINITY, f64::min) / 1.1;
        let x = |value: f64| margin + value / right * width;
        let share = |value: f64| {
            if self.is_logarithmic { (value / lowest).ln() / (highest / lowest).ln() } else { value / highest }
        };
        let y = |value: f64| margin + height * (1.0 - share(value));
        let at_share = |share: f64| {
            if self.is_logarithmic { lowest * (highest / lowest).powf(share) } else { highest * share }
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{margin}\" y=\"20\">{title}</text>\n\
             <text x=\"{margin}\" y=\"{2}\" fill=\"#555\">{3}</text>\n",
            width + 2.0 * margin,
            height + 2.0 * margin,
            margin - 8.0,
            self.axes,
        );
        let mut add = |line: String| svg.push_str(&(line + "\n"));
        for step in 0..=STEPS {
            let share = f64::from(step) / f64::from(STEPS);
            let (value, across) = (at_share(share), share * right);
            let at = y(value);
            add(format!("<path d=\"M{margin} {at:.1}H{:.1}\" stroke=\"#ddd\"/>", margin + width));
            let label = if value < 10.0 && value > 0.0 { format!("{value:.3}") } else { format!("{value:.0}") };
            add(format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", margin - 6.0, at + 4.0));
            let below = height + margin + 18.0;
            add(format!("<text x=\"{:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{across:.0}</text>", x(across)));
        }
        for (index, (name, points)) in self.lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let points: Vec<String> =
                points.iter().map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1))).collect();
            let points = points.join(" ");
            let dashes = if index < COLOURS.len() { "" } else { " stroke-dasharray=\"4 3\"" };
            add(format!(
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"{dashes} points=\"{points}\"/>"
            ));
            let (row, column) = (index / COLOURS.len(), index % COLOURS.len());
            let (at, below) = (margin + 150.0 * column as f64, height + margin + 36.0 + 16.0 * row as f64);
            add(format!("<text x=\"{at:.1}\" y=\"{below:.1}\" fill=\"{colour}\">{name}</text>"));
        }
        svg + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lie_in_the_field() {
        let lines = vec![("one", vec![(0.0, 1.0), (10.0, 100.0)]), ("two", vec![(5.0, 10.0)])];
        let picture = Picture { title: "a < b", axes: "y over x", is_logarithmic: true, lines };
        let svg = picture.svg();
        assert!(svg.contains(">a &lt; b<") && svg.contains(">y over x<"), "{svg}");
        assert_eq!(svg.matches("<polyline").count(), 2);
        // Ten is in the middle between one and a hundred, but for the room beside them.
        assert!(svg.contains("points=\"480.0,220.0\""), "{svg}");
        let svg = Picture { is_logarithmic: false, ..picture }.svg();
        assert!(svg.contains("points=\"480.0,350.9\""), "{svg}");
    }
}
