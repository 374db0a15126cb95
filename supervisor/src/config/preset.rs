//! Providers whose name is enough: address, wire, key variable, model, window and output as their own pages give them
//! (November 2026). Everything can be overridden in `[[provider]]`.

#![deny(clippy::disallowed_methods)]

use ukai_protocol::lease::Wire;

#[derive(Clone, Copy, Debug)]
pub struct Preset {
    pub id: &'static str,
    pub wire: Wire,
    pub base_url: &'static str,
    pub key_variable: Option<&'static str>,
    /// None: a local server offers whatever was loaded there.
    pub model: Option<&'static str>,
    /// Input + output, tokens.
    pub context_window: u64,
    /// Asked for by default: room for a long edit and for the thinking that counts as output.
    pub max_output: u64,
    /// The most that the model gives.
    pub max_output_cap: u64,
}

/// In the order in which they are taken when nothing is configured (spec §5).
pub const PRESETS: [Preset; 11] = [
    // The model takes more, at twice the price from 272,000 tokens of input on.
    Preset {
        id: "openai",
        wire: Wire::Openai,
        base_url: "https://api.openai.com/v1",
        key_variable: Some("OPENAI_API_KEY"),
        model: Some("gpt-5.4"),
        context_window: 400_000,
        max_output: 32_000,
        max_output_cap: 128_000,
    },
    Preset {
        id: "anthropic",
        wire: Wire::Anthropic,
        base_url: "https://api.anthropic.com",
        key_variable: Some("ANTHROPIC_API_KEY"),
        model: Some("claude-sonnet-4-6"),
        context_window: 1_000_000,
        max_output: 32_000,
        max_output_cap: 128_000,
    },
    Preset {
        id: "gemini",
        wire: Wire::Gemini,
        base_url: "https://generativelanguage.googleapis.com",
        key_variable: Some("GEMINI_API_KEY"),
        model: Some("gemini-3.8-flash"),
        context_window: 1_048_576,
        max_output: 32_000,
        max_output_cap: 65_536,
    },
    Preset {
        id: "glm",
        wire: Wire::Openai,
        base_url: "https://api.z.ai/api/paas/v4",
        key_variable: Some("ZAI_API_KEY"),
        model: Some("glm-5"),
        context_window: 200_000,
        max_output: 32_000,
        max_output_cap: 131_072,
    },
    // Their Anthropic endpoint: the OpenAI one caps a reply at 2,048 tokens and puts the thinking into the text.
    Preset {
        id: "minimax",
        wire: Wire::Anthropic,
        base_url: "https://api.minimax.io/anthropic",
        key_variable: Some("MINIMAX_API_KEY"),
        model: Some("MiniMax-M2.7"),
        context_window: 204_800,
        max_output: 32_000,
        max_output_cap: 64_000,
    },
    // The model is chosen per request, so the window is the smallest that those in question have.
    Preset {
        id: "openrouter",
        wire: Wire::Openai,
        base_url: "https://openrouter.ai/api/v1",
        key_variable: Some("OPENROUTER_API_KEY"),
        model: Some("openrouter/auto"),
        context_window: 128_000,
        max_output: 16_000,
        max_output_cap: 32_000,
    },
    Preset {
        id: "deepseek",
        wire: Wire::Openai,
        base_url: "https://api.deepseek.com",
        key_variable: Some("DEEPSEEK_API_KEY"),
        model: Some("deepseek-v4-pro"),
        context_window: 1_000_000,
        max_output: 32_000,
        max_output_cap: 384_000,
    },
    Preset {
        id: "moonshot",
        wire: Wire::Openai,
        base_url: "https://api.moonshot.ai/v1",
        key_variable: Some("MOONSHOT_API_KEY"),
        model: Some("kimi-k2.6"),
        context_window: 262_144,
        max_output: 32_000,
        max_output_cap: 64_000,
    },
    local("ollama", "http://127.0.0.1:11434/v1"),
    local("llamacpp", "http://127.0.0.1:8080/v1"),
    local("vllm", "http://127.0.0.1:8000/v1"),
];

/// A server on this machine: no key, and a window that is safe for what people load.
const fn local(id: &'static str, base_url: &'static str) -> Preset {
    Preset {
        id,
        wire: Wire::Openai,
        base_url,
        key_variable: None,
        model: None,
        context_window: 32_000,
        max_output: 4_096,
        max_output_cap: 8_192,
    }
}

#[must_use]
pub fn find(id: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::url;

    #[test]
    fn the_order_is_the_specs() {
        let ids: Vec<_> = PRESETS.iter().map(|preset| preset.id).collect();
        assert_eq!(
            ids.join(" "),
            "openai anthropic gemini glm minimax openrouter deepseek moonshot ollama llamacpp vllm"
        );
    }

    #[test]
    fn each_can_be_asked_without_showing_a_key() {
        for preset in &PRESETS {
            let url = url::check(preset.base_url).expect(preset.id);
            assert!(url.https || url.loopback, "{}", preset.id);
            assert!(preset.max_output <= preset.max_output_cap, "{}", preset.id);
            assert!(preset.max_output_cap < preset.context_window, "{}", preset.id);
            assert_eq!(preset.key_variable.is_some(), preset.model.is_some(), "{}", preset.id);
        }
    }
}
