//! What fields there are: the part of the API's messages that a conversation with tools can hold, and the names of the rest.

#![deny(clippy::disallowed_methods)]

pub enum Shape {
    /// A message of this name, with these fields.
    Message(&'static str, &'static [(&'static str, Shape)]),
    List(&'static Shape),
    /// Any names, values of one shape; the API counts them in its paths.
    Map(&'static Shape),
    Same(&'static Shape),
    Text,
    Bool,
    Integer,
    Number,
    /// Base64.
    Bytes,
    /// A JSON object of whatever content.
    Struct,
    /// One word of an enumeration, of this name.
    Word(&'static str, &'static [&'static str]),
    /// Not looked at.
    Free,
}

use Shape::{Bool, Bytes, Free, Integer, List, Map, Message, Number, Same, Struct, Text, Word};

pub static REQUEST: Shape = Message(
    "GenerateContentRequest",
    &[
        ("model", Text),
        ("contents", List(&CONTENT)),
        ("systemInstruction", Same(&CONTENT)),
        ("tools", List(&TOOL)),
        ("toolConfig", Same(&TOOL_CONFIG)),
        ("safetySettings", List(&Free)),
        ("generationConfig", Same(&GENERATION_CONFIG)),
        ("cachedContent", Text),
        ("serviceTier", Text),
        ("labels", Struct),
        ("store", Bool),
        ("continuationToken", Text),
    ],
);

static CONTENT: Shape = Message("Content", &[("role", Text), ("parts", List(&PART))]);

static PART: Shape = Message(
    "Part",
    &[
        ("text", Text),
        ("functionCall", Same(&CALL)),
        ("functionResponse", Same(&RESPONSE)),
        ("inlineData", Free),
        ("fileData", Free),
        ("executableCode", Free),
        ("codeExecutionResult", Free),
        ("toolCall", Free),
        ("toolResponse", Free),
        ("thought", Bool),
        ("thoughtSignature", Bytes),
        ("videoMetadata", Free),
        ("mediaResolution", Free),
        ("mediaProcessing", Free),
        ("partMetadata", Struct),
        ("audioTranscription", Free),
        ("speechMetadata", Free),
    ],
);

/// Of these a part holds exactly one.
pub const DATA: [&str; 9] = [
    "text",
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
];

static CALL: Shape = Message("FunctionCall", &[("id", Text), ("name", Text), ("args", Struct)]);

static RESPONSE: Shape = Message(
    "FunctionResponse",
    &[
        ("id", Text),
        ("name", Text),
        ("response", Struct),
        ("parts", List(&Free)),
        ("willContinue", Bool),
        ("scheduling", Text),
    ],
);

static TOOL: Shape = Message(
    "Tool",
    &[
        ("functionDeclarations", List(&DECLARATION)),
        ("googleSearch", Free),
        ("googleSearchRetrieval", Free),
        ("googleMaps", Free),
        ("codeExecution", Free),
        ("computerUse", Free),
        ("urlContext", Free),
        ("fileSearch", Free),
        ("mcpServers", Free),
    ],
);

static DECLARATION: Shape = Message(
    "FunctionDeclaration",
    &[
        ("name", Text),
        ("description", Text),
        ("parameters", Same(&SCHEMA)),
        ("parametersJsonSchema", Free),
        ("response", Same(&SCHEMA)),
        ("responseJsonSchema", Free),
        ("behavior", Text),
    ],
);

/// The subset of OpenAPI that `parameters` takes.
static SCHEMA: Shape = Message(
    "Schema",
    &[
        (
            "type",
            Word("Type", &["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL", "TYPE_UNSPECIFIED"]),
        ),
        ("format", Text),
        ("title", Text),
        ("description", Text),
        ("nullable", Bool),
        ("enum", List(&Text)),
        ("maxItems", Integer),
        ("minItems", Integer),
        ("properties", Map(&SCHEMA)),
        ("required", List(&Text)),
        ("minProperties", Integer),
        ("maxProperties", Integer),
        ("minLength", Integer),
        ("maxLength", Integer),
        ("pattern", Text),
        ("example", Free),
        ("anyOf", List(&SCHEMA)),
        ("propertyOrdering", List(&Text)),
        ("default", Free),
        ("items", Same(&SCHEMA)),
        ("minimum", Number),
        ("maximum", Number),
    ],
);

static TOOL_CONFIG: Shape = Message(
    "ToolConfig",
    &[
        (
            "functionCallingConfig",
            Message(
                "FunctionCallingConfig",
                &[
                    (
                        "mode",
                        Word("FunctionCallingConfig.Mode", &["AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"]),
                    ),
                    ("allowedFunctionNames", List(&Text)),
                ],
            ),
        ),
        ("retrievalConfig", Free),
        ("includeServerSideToolInvocations", Bool),
    ],
);

static GENERATION_CONFIG: Shape = Message(
    "GenerationConfig",
    &[
        ("stopSequences", List(&Text)),
        ("responseMimeType", Text),
        ("responseSchema", Same(&SCHEMA)),
        ("responseJsonSchema", Free),
        ("responseFormat", Free),
        ("responseModalities", List(&Text)),
        ("candidateCount", Integer),
        ("maxOutputTokens", Integer),
        ("temperature", Number),
        ("topP", Number),
        ("topK", Number),
        ("seed", Integer),
        ("presencePenalty", Number),
        ("frequencyPenalty", Number),
        ("responseLogprobs", Bool),
        ("logprobs", Integer),
        ("enableEnhancedCivicAnswers", Bool),
        ("speechConfig", Free),
        (
            "thinkingConfig",
            Message(
                "ThinkingConfig",
                &[("includeThoughts", Bool), ("thinkingBudget", Integer), ("thinkingLevel", Text)],
            ),
        ),
        ("imageConfig", Free),
        ("mediaResolution", Text),
        ("audioTranscriptionConfig", Free),
        ("translationConfig", Free),
    ],
);
