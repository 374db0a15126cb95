//! The providers: each has its moods, which last minutes to an hour, and answers as the mood is when a request arrives.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use ukai_protocol::lease::{AnswerClass, LimitsSeen, Timeouts, Wait, Wire};
use ukai_supervisor::route::account::Rates;
use ukai_supervisor::settings::Provider;
use ukai_worker::provider::classify::Failure;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// Of a mood.
const LASTS_SECS: std::ops::Range<u64> = 120..3_600;
/// Of a reply: what a request may take of the bucket of tokens is far more than what it does.
pub const OUTPUT_MAX: u64 = 3_000;

/// Id, requests per minute with burst, tokens per minute, requests at a time; 0 is no bound.
pub const LABS: [(&str, u32, u32, u64, usize); 3] =
    [("steady", 30, 4, 0, 6), ("wide", 120, 10, 60_000, 8), ("narrow", 0, 0, 0, 2)];

pub fn settings() -> Vec<Provider> {
    let setting = |(id, requests_per_minute, burst, tokens_per_minute, concurrency): (&str, _, _, _, _)| Provider {
        id: id.to_owned(),
        account: id.to_owned(),
        wire: Wire::Openai,
        url: String::new(),
        model: "m".to_owned(),
        key: None,
        context_window: 1_000_000,
        max_output: OUTPUT_MAX,
        prices: None,
        timeouts: Timeouts::default(),
        max_concurrency: Some(concurrency),
        supports_tools: None,
        rates: Rates { requests_per_minute, burst, tokens_per_minute },
    };
    LABS.map(setting).into()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mood {
    Well,
    Slow,
    /// 429s that name a wait of seconds, or of up to two hours.
    Throttling {
        long: bool,
    },
    /// 429s that name none.
    Curt,
    Outage,
    Hanging,
    /// The key is refused.
    Closed,
    /// 200, then an error in the stream.
    Broken,
    /// It means fewer requests a minute than we were told.
    Strict {
        per_minute: usize,
    },
}

/// What comes of one request.
#[derive(Clone, Debug)]
pub struct Reply {
    pub after: Duration,
    pub result: Result<Option<Wait>, Failure>,
    pub seen: LimitsSeen,
}

pub struct Lab {
    rng: StdRng,
    /// From when, which.
    moods: VecDeque<(Instant, Mood)>,
    mood: Mood,
    /// Arrivals within the last minute.
    arrivals: VecDeque<Instant>,
}

impl Lab {
    /// Well from `until` on.
    pub fn new(seed: u64, now: Instant, until: Instant) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let (mut moods, mut at) = (VecDeque::new(), now);
        while at < until {
            moods.push_back((at, mood(&mut rng)));
            at += SECOND * rng.random_range(LASTS_SECS) as u32;
        }
        moods.push_back((until, Mood::Well));
        Lab { rng, moods, mood: Mood::Well, arrivals: VecDeque::new() }
    }

    fn feel(&mut self, now: Instant) -> Mood {
        while let Some((_, mood)) = self.moods.front().copied().filter(|(at, _)| *at <= now) {
            self.mood = mood;
            self.moods.pop_front();
        }
        self.mood
    }

    /// Whether a person who looks would find that the key works.
    pub fn takes_the_key(&mut self, now: Instant) -> bool {
        self.feel(now) != Mood::Closed
    }

    /// `poisoned`: whatever is in it, no provider gets through with it.
    pub fn answer(&mut self, poisoned: bool, now: Instant) -> Reply {
        self.arrivals.push_back(now);
        self.arrivals.retain(|at| now - *at < MINUTE);
        let after = Duration::from_millis(self.rng.random_range(1_000..20_000));
        let mood = self.feel(now);
        let mut seen = LimitsSeen::default();
        let dice = self.rng.random_range(0..100);
        let result = match mood {
            // Who is well fails at times, and says with a reply that it was the last one for a while.
            _ if poisoned => Err(failure(AnswerClass::Unavailable, "http:500", None)),
            _ if dice == 0 => Err(failure(AnswerClass::Withdrawn, "stale", None)),
            Mood::Well if dice == 1 => Err(failure(AnswerClass::Unavailable, "reset", None)),
            Mood::Well if dice == 2 => {
                let long = self.rng.random_bool(0.2);
                Ok(Some(self.wait(long)))
            }
            Mood::Well => Ok(None),
            Mood::Slow => {
                let after = SECOND * self.rng.random_range(20..200);
                return Reply { after, result: Ok(None), seen };
            }
            Mood::Throttling { long } if dice < 40 => {
                let wait = self.wait(long && dice < 6);
                Err(failure(AnswerClass::RateLimited, "http:429", Some(wait)))
            }
            Mood::Curt if dice < 40 => Err(failure(AnswerClass::RateLimited, "http:429", None)),
            Mood::Outage if dice < 90 => {
                let wait = (dice < 20).then(|| self.wait(false));
                Err(failure(AnswerClass::Unavailable, "http:503", wait))
            }
            Mood::Hanging if dice < 60 => {
                let result = Err(failure(AnswerClass::Timeout, "timeout:first_content", None));
                return Reply { after: SECOND * 300, result, seen };
            }
            Mood::Closed => Err(failure(AnswerClass::Closed, "http:401", None)),
            Mood::Broken if dice < 70 => Err(failure(AnswerClass::Unavailable, "stream:cut", None)),
            Mood::Strict { per_minute } if self.arrivals.len() > per_minute => {
                let frees = self.arrivals[self.arrivals.len() - per_minute - 1] + MINUTE;
                let ms = (frees - now).as_millis() as u64 + 1_000;
                Err(failure(AnswerClass::RateLimited, "http:429", Some(Wait::For(ms))))
            }
            Mood::Strict { per_minute } => {
                seen.requests_left = Some((per_minute - self.arrivals.len()) as u64);
                Ok(None)
            }
            Mood::Throttling { .. } | Mood::Curt | Mood::Outage | Mood::Hanging | Mood::Broken => Ok(None),
        };
        Reply { after, result, seen }
    }

    /// 1 s to a minute, or to two hours; each size as likely as its double.
    fn wait(&mut self, long: bool) -> Wait {
        let most: f64 = if long { 7_200_000.0 } else { 60_000.0 };
        Wait::For((1_000.0 * (most / 1_000.0).powf(self.rng.random())) as u64)
    }
}

fn mood(rng: &mut StdRng) -> Mood {
    match rng.random_range(0..11) {
        0..=2 => Mood::Well,
        3 => Mood::Slow,
        4 => Mood::Throttling { long: rng.random() },
        5 => Mood::Curt,
        6 => Mood::Outage,
        7 => Mood::Hanging,
        8 => Mood::Closed,
        9 => Mood::Broken,
        _ => Mood::Strict { per_minute: rng.random_range(2..12) },
    }
}

fn failure(class: AnswerClass, signature: &str, wait: Option<Wait>) -> Failure {
    Failure { class, wait, signature: signature.to_owned(), ..Failure::withdrawn() }
}
