//! What values may be, by themselves and together.

use state::config::HEADROOM_MAX_PERMILLE;

use super::{Config, ConfigError, ProxyConfig, SflowConfig, TracesConfig, extender, scheduler};
use crate::tls::is_loopback;

impl Config {
    /// Whether the service can be run with it.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let range = |key: &str, value: u32, least: u32, most: u32| match value {
            v if v < least || v > most => Err(ConfigError(format!("{key}: {v}; must be {least} to {most}"))),
            _ => Ok(()),
        };
        // Slips raise the headroom as far.
        range("plan.headroom_permille", self.plan.headroom_permille, 0, HEADROOM_MAX_PERMILLE)?;
        // Plans are renewed after a third of this time, and 1 s is the shortest third.
        range("plan.ttl_s", self.plan.ttl_s, 3, 3_600)?;
        // An agent keeps to these bounds whatever it is told (agent/daemon/src/session/connect.rs).
        range("agents.report_ms", self.agents.report_ms, 100, 10_000)?;
        range("agents.probe_ms", self.agents.probe_ms, 100, 60_000)?;
        // Two reports fit into the silence, so one lost report ends no session. `report_ms` was checked above, so the product fits.
        range("agents.silence_ms", self.agents.silence_ms, 2 * self.agents.report_ms, 30_000)?;
        range("agents.sessions", self.agents.sessions, 1, 100_000)?;
        range("limits.connections", self.limits.connections, 1, 100_000)?;
        range("limits.body_mib", self.limits.body_mib, 1, 1_024)?;
        range("limits.request_s", self.limits.request_s, 1, 3_600)?;
        range("limits.stall_s", self.limits.stall_s, 1, 3_600)?;
        range("limits.evaluations", self.limits.evaluations, 1, 256)?;
        range("limits.watchers", self.limits.watchers, 0, 10_000)?;
        range("extender.slower_percent", self.extender.slower_percent, 0, extender::SLOWER_PERCENT_MAX)?;
        if let Some(scheduler) = &self.scheduler {
            range("scheduler.gpus_per_host", scheduler.gpus_per_host.unwrap_or(1), 1, fabric::native::HOST_GPUS_MAX)?;
            range("scheduler.round_s", scheduler.round_s, 1, scheduler::SECONDS_MAX)?;
            range("scheduler.start_s", scheduler.start_s, 1, scheduler::SECONDS_MAX)?;
            range("scheduler.stop_s", scheduler.stop_s, 1, scheduler::SECONDS_MAX)?;
        }
        let problem = self.proxy.as_ref().and_then(ProxyConfig::problem);
        if let Some(problem) = problem.or_else(|| self.traces.as_ref().and_then(TracesConfig::problem)) {
            return Err(ConfigError(problem));
        }
        if let Some(problem) = self.sflow.as_ref().and_then(SflowConfig::problem) {
            return Err(ConfigError(problem));
        }
        // The text is parsed here only to refuse it early; `run` parses it again when it starts the controller.
        self.ecmp.parse::<fabric::route::Ecmp>().map_err(|e| ConfigError(format!("ecmp: {e}")))?;
        if self.state.as_os_str().is_empty() {
            return Err(ConfigError("state: empty".into()));
        }
        // Without certificates everybody is admin, so nobody beyond this machine may reach the port.
        if self.tls.is_none() && !is_loopback(self.listen.ip()) {
            return Err(ConfigError(format!("listen: {} is not a loopback address, and without tls only loopback is served", self.listen)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_together() {
        let check = |text: &str| Config::parse(text).unwrap().check().map_err(|e| e.0);
        assert!(check("listen = \"0.0.0.0:7480\"").unwrap_err().contains("not a loopback address"));
        assert!(check("listen = \"[::1]:7480\"").is_ok());
        assert!(check("[plan]\nheadroom_permille = 300").unwrap_err().contains("300; must be 0 to 200"));
        assert!(check("[plan]\nttl_s = 1").is_err());
        assert!(check("ecmp = \"sideways\"").unwrap_err().starts_with("ecmp: "));
    }

    /// Every number has a range; what is just outside is refused with key, value and range, what is at its ends is taken.
    #[test]
    fn every_number_has_a_range() {
        let check = |text: &str| Config::parse(text).unwrap().check().map_err(|e| e.0);
        let ranges: [(&str, &str, u64, u64); 17] = [
            ("plan", "headroom_permille", 0, 200),
            ("plan", "ttl_s", 3, 3_600),
            ("agents", "report_ms", 100, 5_000),
            ("agents", "probe_ms", 100, 60_000),
            ("agents", "silence_ms", 4_000, 30_000),
            ("agents", "sessions", 1, 100_000),
            ("limits", "connections", 1, 100_000),
            ("limits", "body_mib", 1, 1_024),
            ("limits", "request_s", 1, 3_600),
            ("limits", "stall_s", 1, 3_600),
            ("limits", "evaluations", 1, 256),
            ("limits", "watchers", 0, 10_000),
            ("extender", "slower_percent", 0, 1_000),
            ("scheduler", "gpus_per_host", 1, 1_024),
            ("scheduler", "round_s", 1, 86_400),
            ("scheduler", "start_s", 1, 86_400),
            ("scheduler", "stop_s", 1, 86_400),
        ];
        for (table, key, least, most) in ranges {
            // A scheduler has no default policy.
            let policy = if table == "scheduler" { "policy = \"srtf\"\n" } else { "" };
            let at = |value: u64| check(&format!("[{table}]\n{key} = {value}\n{policy}"));
            assert_eq!((at(least), at(most)), (Ok(()), Ok(())), "{table}.{key}");
            for beyond in [least.checked_sub(1), Some(most + 1), Some(u64::from(u32::MAX))].into_iter().flatten() {
                // A session's silence is counted in reports, so a report interval can make it too short.
                let named =
                    |e: &str| e.starts_with(&format!("{table}.{key}: {beyond}; must be ")) || e.starts_with("agents.silence_ms: 10000; ");
                let error = at(beyond).unwrap_err();
                assert!(named(&error) && !error.contains('\n'), "{table}.{key} = {beyond}: {error}");
            }
            assert!(Config::parse(&format!("[{table}]\n{key} = -1\n")).unwrap_err().0.starts_with("line 2: "), "{table}.{key}");
        }
    }
}
