//! A sequential test between two loads: CUSUM of the log likelihood ratio, as the module documentation of the verdict says.

/// Two loads between which a test decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hypotheses {
    pub(super) middle: f64,
    pub(super) gap: f64,
}

impl Hypotheses {
    pub(super) fn score(self, estimate: f64, variance: f64) -> f64 {
        self.gap * (estimate - self.middle) / variance
    }
}

/// What has been summed up since the last moment at which nothing spoke for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    pub(super) nats: f64,
    sum: f64,
    weight: f64,
}

impl Evidence {
    pub(super) fn add(&mut self, test: Hypotheses, estimate: f64, variance: f64) {
        self.nats += test.score(estimate, variance);
        if self.nats <= 0.0 {
            *self = Self::default();
            return;
        }
        self.sum += estimate / variance;
        self.weight += 1.0 / variance;
    }

    /// The load since the change.
    pub(super) fn estimate(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}
