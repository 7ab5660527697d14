//! A real Chromium, driven over its debugging pipe: JSON messages that end in NUL, in at descriptor 3 and out at 4.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    time::{Duration, Instant},
};

use base64::Engine as _;
use serde_json::{Value, json};

/// Longest wait for anything: a busy machine needs a fraction, and a page that hangs fails before somebody loses patience.
const WAIT: Duration = Duration::from_secs(30);
/// Between two looks at a condition.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Before what the page threw and nobody caught.
const EXCEPTION: &str = "exception: ";
/// One browser at a time: each is several processes.
static ONE: Mutex<()> = Mutex::new(());

/// A browser with one tab.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: mpsc::Receiver<Value>,
    calls: u64,
    session: Option<Value>,
    troubles: Vec<String>,
    _folder: tempfile::TempDir,
    _one: MutexGuard<'static, ()>,
}

impl Browser {
    /// Starts with a window of this size; `None`, and a line that says so, where there is no Chromium.
    pub(crate) fn start(width: u32, height: u32) -> Option<Self> {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        // The pipes come as standard input and output, and a shell moves them to where Chromium wants them.
        let script = "command -v chromium >/dev/null || exit 127; \
                      exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run \
                      --user-data-dir=\"$0\" --remote-debugging-pipe about:blank 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null";
        let mut command = Command::new("bash");
        command.args(["-c", script]).arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (to, out) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let (send, from) = mpsc::channel();
        std::thread::spawn(move || {
            for message in out.split(0).map_while(Result::ok).filter_map(|bytes| serde_json::from_slice(&bytes).ok()) {
                if send.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self { child, to, from, calls: 0, session: None, troubles: Vec::new(), _folder: folder, _one: one };
        let Some(targets) = browser.try_call("Target.getTargets", &json!({})) else {
            println!("skipped: chromium is not installed");
            return None;
        };
        let tab = targets["targetInfos"].as_array().unwrap().iter().find(|t| t["type"] == "page").unwrap();
        let attached = browser.call("Target.attachToTarget", &json!({ "targetId": tab["targetId"], "flatten": true }));
        browser.session = Some(attached["sessionId"].clone());
        for domain in ["Runtime", "Log", "Page"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser.resize(width, height);
        Some(browser)
    }

    /// Sends one message and waits for its answer; `None`: the browser is not there.
    fn try_call(&mut self, method: &str, parameters: &Value) -> Option<Value> {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).ok()?;
        let until = Instant::now() + WAIT;
        loop {
            let message = match self.from.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(message) => message,
                Err(mpsc::RecvTimeoutError::Disconnected) => return None,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("{method}: no answer"),
            };
            if message["id"] == self.calls {
                assert!(message["error"].is_null(), "{method}: {message}");
                return Some(message["result"].clone());
            }
            self.hear(&message);
        }
    }

    /// Keeps what the page complains about.
    fn hear(&mut self, message: &Value) {
        let of = &message["params"];
        let trouble = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => format!("{EXCEPTION}{}", of["exceptionDetails"]),
            Some("Log.entryAdded") if of["entry"]["level"] == "error" => of["entry"].to_string(),
            Some("Runtime.consoleAPICalled") if of["type"] == "error" || of["type"] == "assert" => of["args"].to_string(),
            _ => return,
        };
        self.troubles.push(trouble);
    }

    /// One call of the protocol.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.try_call(method, parameters).expect("the browser is alive")
    }

    /// The size of what is seen.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// `light` or `dark`.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", &features);
    }

    /// Goes to an address.
    pub(crate) fn go(&mut self, address: &str) {
        let gone = self.call("Page.navigate", &json!({ "url": address }));
        assert!(gone["errorText"].is_null(), "{address}: {gone}");
    }

    /// What an expression of JavaScript gives, as JSON.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true of the page.
    pub(crate) fn until(&mut self, expression: &str) {
        let until = Instant::now() + WAIT;
        while self.eval(&format!("Boolean({expression})")) != true {
            // A fault of the page makes waiting pointless.
            let fault = self.troubles.iter().any(|trouble| trouble.starts_with(EXCEPTION));
            if fault || Instant::now() > until {
                self.shot("failed");
                let page = self.eval("document.body.innerText");
                let troubles = self.troubles.join("\n");
                panic!("{expression} did not come true; a picture is in {}; the page says:\n{page}\n{troubles}", pictures().display());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Presses and releases the mouse in the middle of the first element that a selector finds; of its first line, where it has several:
    /// the middle of a link that is wrapped may be beside its text.
    pub(crate) fn click(&mut self, selector: &str) {
        let found = format!("document.querySelector({})", json!(selector));
        let place = format!(
            "(() => {{ const e = {found}; e.scrollIntoView({{ block: 'center' }}); const b = e.getClientRects()[0]; return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
        );
        let at = self.eval(&place);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Presses a key: `Tab`, `Enter` or one that needs no more than its name.
    pub(crate) fn key(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "/" => (191, "/"),
            _ => (0, ""),
        };
        let mut down = json!({ "type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code });
        if !text.is_empty() {
            down["text"] = json!(text);
        }
        self.call("Input.dispatchKeyEvent", &down);
        self.call("Input.dispatchKeyEvent", &json!({ "type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code }));
    }

    /// Types into whatever has the focus.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// Writes what is seen to `NAME.png` among the test's temporary files.
    pub(crate) fn shot(&mut self, name: &str) {
        let data = self.call("Page.captureScreenshot", &json!({}));
        let bytes = base64::engine::general_purpose::STANDARD.decode(data["data"].as_str().unwrap()).unwrap();
        std::fs::create_dir_all(pictures()).unwrap();
        std::fs::write(pictures().join(format!("{name}.png")), bytes).unwrap();
    }

    /// Errors on the console since the last call.
    pub(crate) fn troubles(&mut self) -> Vec<String> {
        // A call hears everything that came before its answer.
        self.eval("1");
        std::mem::take(&mut self.troubles)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The rest of its processes end when they lose the first.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where pictures go.
pub(crate) fn pictures() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("page")
}
