// What users of the Vercel AI SDK and of OpenAI's own do, against BASE_URL. Prints what they see.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
import OpenAI from "openai";

const { BASE_URL: baseURL, API_KEY: apiKey, MODEL: model } = process.env;
const headers = (session) => ({ "X-User-Id": "ada", "X-Session-Id": session });
const service = createOpenAICompatible({ name: "service", baseURL, apiKey, includeUsage: true });
const system = "You are a helpful assistant.";
const quietly = { maxRetries: 0, onError: () => {} };

async function generated() {
  const { text, finishReason, usage } = await generateText({
    model: service(model),
    system,
    prompt: "Where do I live?",
    headers: headers("node-plain"),
  });
  return { text, finishReason, input: usage.inputTokens, output: usage.outputTokens };
}

async function streamed() {
  const result = streamText({
    model: service(model),
    messages: [
      { role: "user", content: "I live in Porto." },
      { role: "assistant", content: "Noted." },
      { role: "user", content: [{ type: "text", text: "And where do I live?" }] },
    ],
    headers: headers("node-stream"),
  });
  const pieces = [];
  for await (const piece of result.textStream) pieces.push(piece);
  const usage = await result.usage;
  return {
    pieces,
    finishReason: await result.finishReason,
    input: usage.inputTokens,
    output: usage.outputTokens,
  };
}

async function refused(name, key) {
  const stranger = createOpenAICompatible({ name: "service", baseURL, apiKey: key });
  try {
    await generateText({ model: stranger(name), prompt: "Hello", ...quietly });
  } catch (error) {
    return { message: error.message, status: error.statusCode };
  }
}

async function refusedInStream() {
  const errors = [];
  const { fullStream } = streamText({ model: service("gpt-4o"), prompt: "Hello", ...quietly });
  for await (const part of fullStream) {
    if (part.type === "error") errors.push(part.error.message);
  }
  return errors;
}

async function openai() {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const models = (await client.models.list()).data.map((each) => each.id);
  const asked = { model, messages: [{ role: "user", content: "Where do I live?" }] };
  const plain = await client.chat.completions.create(asked, { headers: headers("npm-plain") });
  const stream = await client.chat.completions.create(
    { ...asked, stream: true, stream_options: { include_usage: true } },
    { headers: headers("npm-stream") },
  );
  const pieces = [];
  let finishReason, usage;
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta?.content) pieces.push(chunk.choices[0].delta.content);
    finishReason = chunk.choices[0]?.finish_reason ?? finishReason;
    usage = chunk.usage ?? usage;
  }
  const wrong = await client.chat.completions
    .create({ ...asked, model: "gpt-4o" })
    .catch((error) => ({ message: error.message, status: error.status, code: error.code }));
  return {
    models,
    plain: { text: plain.choices[0].message.content, usage: plain.usage },
    stream: { pieces, finishReason, usage },
    wrong,
  };
}

console.log(
  JSON.stringify({
    generated: await generated(),
    streamed: await streamed(),
    unknownModel: await refused("gpt-4o", apiKey),
    wrongKey: await refused(model, "wrong"),
    inStream: await refusedInStream(),
    openai: await openai(),
  }),
);
