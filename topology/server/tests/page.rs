//! How the page is served: files, headers, and nothing beside them. What it shows is tested in a browser (`browser`).
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::{fs, path::Path, process::Command};

use support::{Answer, Service, program, request};

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let mut lines = answer.head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn files() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let read = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    fs::read_dir(folder).unwrap().map(|entry| read(entry.unwrap())).collect()
}

#[test]
fn each_file_is_served_with_its_type_and_kept_by_its_tag() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::with(program().arg("--state").arg(folder.path().join("s.redb")));
    let mut paths: Vec<(String, Vec<u8>)> = files().into_iter().map(|(name, bytes)| (format!("/{name}"), bytes)).collect();
    let index = paths.iter().find(|(path, _)| path == "/index.html").unwrap().1.clone();
    paths.push(("/".into(), index));
    assert!(paths.len() > 8, "{paths:?}");
    for (path, bytes) in paths {
        let answer = service.get(&path);
        assert_eq!((answer.status, answer.body.as_bytes()), (200, &bytes[..]), "{path}");
        let kind = match path.rsplit_once('.').map_or("html", |(_, end)| end) {
            "html" => "text/html; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            other => panic!("{path}: {other}"),
        };
        assert_eq!(header(&answer, "content-type"), Some(kind), "{path}");
        assert_eq!(header(&answer, "cache-control"), Some("no-cache"), "{path}");
        assert_eq!(header(&answer, "x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(header(&answer, "referrer-policy"), Some("no-referrer"), "{path}");
        assert_eq!(header(&answer, "cross-origin-resource-policy"), Some("same-origin"), "{path}");
        assert_eq!(header(&answer, "cross-origin-opener-policy"), Some("same-origin"), "{path}");
        let policy = header(&answer, "content-security-policy").unwrap();
        assert!(policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("script-src") && !policy.contains("unsafe-eval"), "{policy}");

        let tag = header(&answer, "etag").unwrap();
        let ask = |tag: &str| request(service.address, "GET", &path, &[&format!("if-none-match: {tag}")], b"").unwrap();
        let known = ask(tag);
        assert_eq!((known.status, known.body.as_str(), header(&known, "etag")), (304, "", Some(tag)), "{path}");
        assert_eq!(ask("\"of another version\"").status, 200, "{path}");
    }
}

/// The colours and the style of pictures are those of the crate that draws them, and no file of the page.
#[test]
fn the_style_of_pictures_is_served_and_the_page_has_no_colours_twice() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::with(program().arg("--state").arg(folder.path().join("s.redb")));
    let answer = service.get("/picture.css");
    assert_eq!((answer.status, header(&answer, "content-type")), (200, Some("text/css; charset=utf-8")));
    assert!(header(&answer, "content-security-policy").unwrap().contains("default-src 'self'"));
    assert_eq!(answer.body, render::style::page());
    let tag = header(&answer, "etag").unwrap();
    let known = request(service.address, "GET", "/picture.css", &[&format!("if-none-match: {tag}")], b"").unwrap();
    assert_eq!((known.status, known.body.as_str()), (304, ""));
    let (_, own) = files().into_iter().find(|(name, _)| name == "style.css").unwrap();
    let own = String::from_utf8(own).unwrap();
    for colour in render::palette::LIGHT.jobs.iter().chain(&render::palette::DARK.jobs) {
        assert!(answer.body.contains(colour) && !own.contains(colour), "{colour}");
    }
}

/// The page's scripts cannot import a number from the crate that draws, so they repeat three; a fourth would need a line here.
#[test]
fn numbers_that_the_page_repeats_are_those_of_the_drawing() {
    let text = |wanted: &str| {
        let (_, bytes) = files().into_iter().find(|(name, _)| name == wanted).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let lines = [
        ("pictures.js", format!("const RINGS_MAX = {};", render::circles::RINGS_MAX)),
        ("dom.js", format!("const HUES = {};", render::palette::HUES)),
    ];
    for (name, line) in lines {
        assert!(text(name).lines().any(|l| l == line), "{name} lacks {line:?}");
    }
    let scores = text("dom.js").lines().find(|l| l.starts_with("export const SCORES = ")).unwrap().to_owned();
    let classes = render::palette::SCORE_CLASSES.iter().map(|(low, said)| match *low {
        low if low == f64::NEG_INFINITY => format!("[-Infinity, \"{said}\"]"),
        low if low < 1.0 && low > 0.99 => format!("[1 - 1e-9, \"{said}\"]"),
        low => format!("[{low}, \"{said}\"]"),
    });
    assert_eq!(scores, format!("export const SCORES = [{}];", classes.collect::<Vec<_>>().join(", ")));
}

#[test]
fn nothing_else_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::with(program().arg("--state").arg(folder.path().join("s.redb")));
    for path in [
        "/moon.js",
        "/page/app.js",
        "//app.js",
        "/./app.js",
        "/app.js/",
        "/../Cargo.toml",
        "/..%2fCargo.toml",
        "/%2e%2e/Cargo.toml",
        "/page/../../Cargo.toml",
        "/..\\Cargo.toml",
        "/app.js%00.svg",
    ] {
        let (status, _) = service.refused("GET", path, "");
        assert_eq!(status, 404, "{path}");
    }
    assert_eq!(service.refused("POST", "/", "").0, 405);
    assert_eq!(service.refused("DELETE", "/app.js", "").0, 405);
}

/// What these tests and those in a browser are shown is in the program, as it is in a release.
#[test]
fn the_program_carries_the_files() {
    let path = support::program_path();
    let program = fs::read(&path).unwrap();
    let carried = |bytes: &[u8]| program.windows(bytes.len()).any(|window| window == bytes);
    for (name, bytes) in files() {
        assert!(carried(&bytes), "{name} is not in {}", path.display());
    }
}

/// What a browser would say only when it gets there.
#[test]
fn the_modules_are_javascript_without_dependencies() {
    for (name, bytes) in files().iter().filter(|(name, _)| name.ends_with(".js")) {
        let text = std::str::from_utf8(bytes).unwrap();
        let imports = text.lines().filter(|line| line.starts_with("import ") || line.contains(" from \""));
        assert!(imports.clone().all(|line| line.contains("from \"./")), "{name} imports from elsewhere");
        assert!(!text.contains("innerHTML") && !text.contains("insertAdjacentHTML"), "{name} makes markup of text");
    }
    if Command::new("node").arg("--version").output().is_err() {
        println!("skipped: node is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("package.json"), r#"{"type": "module"}"#).unwrap();
    for (name, bytes) in files().iter().filter(|(name, _)| name.ends_with(".js")) {
        let copy = folder.path().join(name);
        fs::write(&copy, bytes).unwrap();
        let checked = Command::new("node").arg("--check").arg(copy).output().unwrap();
        assert!(checked.status.success(), "{name}: {}", String::from_utf8_lossy(&checked.stderr));
    }
}
