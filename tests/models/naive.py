"""The base of naive implementations of the papers' equations: no cache, no batch tricks, one document at a time."""

import math

import torch


def naive_convolution(inputs, taps, left):
    """DynamicConv(X)_{t,c} = Σ_j taps_{t,h(c),j} X_{t+j-left,c}, one term at a time."""
    batch, length, heads, kernel = taps.shape
    channels = inputs.shape[2]
    outputs = []
    for position in range(length):
        total = torch.zeros(batch, channels, dtype=inputs.dtype)
        for tap in range(kernel):
            place = position + tap - left
            if 0 <= place < inputs.shape[1]:
                weights = taps[:, position, :, tap].repeat_interleave(channels // heads, dim=1)
                total = total + weights * inputs[:, place]
        outputs.append(total)
    return torch.stack(outputs, dim=1)


def naive_windowed_attention(queries, keys, values, window_size, head_window_size=1, circular=False, padding_mask=None):
    """Equations 4.4 to 4.9 of the thesis: o_i^h = ATT(q_i^h, K) V, with K and V the union of the windows of the
    neighboring heads; zeros where it is empty.
    """
    batch, heads, length, width = queries.shape
    reach, head_reach = window_size // 2, head_window_size // 2
    outputs = []
    for document in range(batch):
        for head in range(heads):
            seen_heads = set()
            for g in range(head - head_reach, head + head_reach + 1):
                if circular:
                    seen_heads.add(g % heads)
                elif 0 <= g < heads:
                    seen_heads.add(g)
            for i in range(length):
                seen = []
                for g in sorted(seen_heads):
                    for j in range(max(0, i - reach), min(length, i + reach + 1)):
                        if padding_mask is None or padding_mask[document, j]:
                            seen.append((document, g, j))
                if not seen:
                    outputs.append(0.0 * queries[document, head, i])
                    continue
                window_keys = torch.stack([keys[place] for place in seen])
                window_values = torch.stack([values[place] for place in seen])
                scores = window_keys @ queries[document, head, i] / width**0.5
                outputs.append(scores.softmax(0) @ window_values)
    return torch.stack(outputs).view(batch, heads, length, width)


def naive_windows(bert, input_ids, mask, window_size, stride, layers=4):
    """Sections 4.2.3 and 4.2.4 of the thesis: each window alone, without a mask; a position's states are averaged."""
    rows = []
    for ids, length in zip(input_ids, mask.sum(1).tolist(), strict=True):
        vectors: list[list[torch.Tensor]] = [[] for _ in ids]
        start = 0
        while True:
            # a window that would reach beyond the end is moved back
            begin = max(min(start, length - window_size), 0)
            end = min(begin + window_size, length)
            states = bert(ids[None, begin:end], output_hidden_states=True).hidden_states
            states = torch.cat(states[-layers:], dim=-1)[0]
            for position in range(begin, end):
                vectors[position].append(states[position - begin])
            if end == length:
                break
            start += stride
        means = []
        for states in vectors:
            if states:
                means.append(sum(states) / len(states))
            else:
                means.append(torch.zeros_like(vectors[0][0]))
        rows.append(torch.stack(means))
    return torch.stack(rows)


def naive_copying(logits, gate_logits, copy_attention, source_ids):
    """Equation 4.3 of the thesis: p(w) = p(z = 1) p_copy(w) + p(z = 0) p_softmax(w)."""
    beams = logits.shape[0] // source_ids.shape[0]
    rows = []
    for row, (scores, gates, attention) in enumerate(zip(logits, gate_logits, copy_attention, strict=True)):
        steps = []
        for position in range(scores.shape[0]):
            copying = gates[position].sigmoid()
            generated = scores[position].exp() / scores[position].exp().sum()
            copied = [torch.zeros((), dtype=scores.dtype) for _ in range(scores.shape[1])]
            for place, token in enumerate(source_ids[row // beams].tolist()):
                copied[token] = copied[token] + attention[position, place]
            steps.append(copying * torch.stack(copied) + (1.0 - copying) * generated)
        rows.append(torch.stack(steps))
    return torch.stack(rows)


def naive_loss(log_probs, labels, smoothing, items=None):
    """(1 - ε) NLL + ε · mean over the vocabulary of -log p, summed over the tokens that are wanted."""
    loss = nll = torch.zeros((), dtype=log_probs.dtype)
    for scores, label in zip(log_probs.flatten(0, 1), labels.flatten().tolist(), strict=True):
        if label != -100:
            nll = nll - scores[label]
            loss = loss - (1 - smoothing) * scores[label] - smoothing * scores.mean()
    items = (labels != -100).sum() if items is None else items
    return loss / items, nll / items


class NaiveModel:
    """Parts over a model's named weights; a subclass has `log_probs(decoder_input_ids, ...)` of one document."""

    def __init__(self, model):
        self.model = model
        self.config = model.config
        self.weights = dict(model.named_parameters())

    def linear(self, name, x):
        outputs = x @ self.weights[f"{name}.weight"].T
        bias = self.weights.get(f"{name}.bias")
        return outputs if bias is None else outputs + bias

    def norm(self, name, x):
        centered = x - x.mean(-1, keepdim=True)
        deviation = (centered.square().mean(-1, keepdim=True) + getattr(self.config, "layer_norm_eps", 1e-5)).sqrt()
        return centered / deviation * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def sub_layer(self, norm, h, compute):
        """What comes out behind a sub-layer, normalized as the config says."""
        if self.config.norm == "pre":
            return h + compute(self.norm(norm, h))
        return self.norm(norm, h + compute(h))

    def top(self, name, h):
        """What comes out of a stack of layers."""
        return self.norm(f"{name}.layer_norm", h) if self.config.norm == "pre" else h

    def shifted(self, words):
        """docs/equations.md, section 6: P e(i−1) of a text's words e, with e(−1) = 0."""
        matrix = self.weights["model.encoder.token_shift.projection.weight"]
        projected = [0 * matrix[:, 0]]
        for word in words[:-1]:
            projected.append(matrix @ word)
        return torch.stack(projected)

    def source_words(self, input_ids):
        words = self.weights["model.shared.weight"][input_ids]
        return words + self.shifted(words) if self.config.token_shift else words

    def sinusoid(self, length):
        width = self.config.d_model
        table = torch.zeros(length, width, dtype=torch.float64)
        for position in range(length):
            for pair in range(width // 2):
                angle = position / 10000 ** (2 * pair / width)
                table[position, 2 * pair] = math.sin(angle)
                table[position, 2 * pair + 1] = math.cos(angle)
        return table

    def feed_forward(self, name, s):
        return self.linear(f"{name}.outer", self.linear(f"{name}.inner", s).clamp(min=0))

    def heads(self, name, h, source):
        """Queries, keys and values, each (length, heads, width of a head)."""
        shape = (self.config.num_heads, -1)
        queries = self.linear(f"{name}.q_proj", h).unflatten(-1, shape)
        keys = self.linear(f"{name}.k_proj", source).unflatten(-1, shape)
        values = self.linear(f"{name}.v_proj", source).unflatten(-1, shape)
        return queries, keys, values

    def attention(self, name, h, source, is_causal=False, shift=0.0, weigh=lambda head, scores: scores.softmax(-1)):
        """Outputs (T, C), and each head's weights (H, T, S), of its scores and of keys that are shifted."""
        q, k, v = self.heads(name, h, source)
        k = k + shift
        contexts, weights = [], []
        for head in range(self.config.num_heads):
            scores = q[:, head] @ k[:, head].T / math.sqrt(q.shape[-1])
            if is_causal:
                scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
            weights.append(weigh(head, scores))
            contexts.append(weights[-1] @ v[:, head])
        return self.linear(f"{name}.out_proj", torch.cat(contexts, dim=-1)), torch.stack(weights)

    def layer(self, name, h, attend, attend_to_source=None):
        """A Transformer's layer, whose attention is given; a decoder's layer attends to the source too."""
        h = self.sub_layer(f"{name}.self_attention_norm", h, attend)
        if attend_to_source is not None:
            h = self.sub_layer(f"{name}.cross_attention_norm", h, attend_to_source)
        return self.sub_layer(f"{name}.feed_forward_norm", h, lambda s: self.feed_forward(f"{name}.feed_forward", s))

    def decoder_layer(self, name, h, source, shift=0.0):
        """The layer's output, and the context and each head's weights of its attention to the source."""
        context = weights = None

        def attend_to_source(read):
            nonlocal context, weights
            context, weights = self.attention(f"{name}.cross_attention", read, source, shift=shift)
            return context

        def attend(read):
            return self.attention(f"{name}.self_attention", read, read, is_causal=True)[0]

        outputs = self.layer(name, h, attend, attend_to_source)
        return outputs, context, weights

    def mixture(self, generated, gate, weights, input_ids):
        """log p(w) = log(p(copy) p_copy(w) + (1 - p(copy)) p_generated(w))."""
        copied = torch.zeros_like(generated).index_add(1, input_ids, weights)
        return (gate * copied + (1 - gate) * generated).log()

    def loss(self, inputs, labels):
        """docs/equations.md, section 0: smoothed over the vocabulary, divided by the target tokens."""
        total, tokens, smoothing = 0.0, 0, self.config.label_smoothing
        for row, length in enumerate(inputs["attention_mask"].sum(-1).tolist()):
            wanted = labels[row][labels[row] != -100]
            start = torch.tensor([self.config.decoder_start_token_id])
            source = {name: value[row, :length] for name, value in inputs.items() if name != "attention_mask"}
            log_p = self.log_probs(torch.cat((start, wanted[:-1])), **source)
            nll = -log_p[torch.arange(len(wanted)), wanted]
            total = total + ((1 - smoothing) * nll - smoothing * log_p.mean(-1)).sum()
            tokens += len(wanted)
        return total / tokens


def assert_equals_with_gradients(actual, expected, **inputs):
    """The same outputs, and the same gradient of a weighted sum of them for each input, which has a name."""
    torch.testing.assert_close(actual, expected)
    weights = torch.randn_like(expected)
    tensors = list(inputs.values())
    gradients = torch.autograd.grad((actual * weights).sum(), tensors, materialize_grads=True)
    expected_gradients = torch.autograd.grad((expected * weights).sum(), tensors, materialize_grads=True)
    for name, gradient, expected_gradient in zip(inputs, gradients, expected_gradients, strict=True):
        torch.testing.assert_close(
            gradient, expected_gradient, msg=lambda message, name=name: f"gradient of {name}: {message}"
        )


def assert_equals_naive(model, naive, inputs, labels):
    """The same loss, and the same gradient of every trainable parameter."""
    loss, expected_loss = model(**inputs, labels=labels).loss, naive.loss(inputs, labels)
    torch.testing.assert_close(loss.double(), expected_loss, rtol=1e-6, atol=1e-6)
    learning = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
    names, parameters = zip(*learning, strict=True)
    expected = torch.autograd.grad(expected_loss, parameters, allow_unused=True)
    actual = torch.autograd.grad(loss, parameters, allow_unused=True)
    for name, gradient, expected_gradient in zip(names, actual, expected, strict=True):
        # the model may take its softmax in float32
        torch.testing.assert_close(
            gradient, expected_gradient, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )
