"""The shape of local/chat in plain PyTorch: Qwen3's, so that transformers reads what is saved here."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Shape:
    vocab_size: int = 1280
    hidden_size: int = 128
    num_hidden_layers: int = 6
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 32
    intermediate_size: int = 320
    rope_theta: float = 10_000.0
    max_position_embeddings: int = 4096
    rms_norm_eps: float = 1e-6

    def config(self) -> dict:
        """The same as transformers' config.json."""
        return {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": None,
            "eos_token_id": 2,
            "pad_token_id": 0,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "hidden_size": self.hidden_size,
            "initializer_range": 0.02,
            "intermediate_size": self.intermediate_size,
            "max_position_embeddings": self.max_position_embeddings,
            "max_window_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "num_hidden_layers": self.num_hidden_layers,
            "num_key_value_heads": self.num_key_value_heads,
            "rms_norm_eps": self.rms_norm_eps,
            "rope_scaling": None,
            "rope_theta": self.rope_theta,
            "sliding_window": None,
            "tie_word_embeddings": True,
            "torch_dtype": "float16",
            "use_cache": True,
            "use_sliding_window": False,
            "vocab_size": self.vocab_size,
        }


# Processors that multiply in bfloat16 take half the time for it, others ten times as long.
HALF = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


class Linear(nn.Linear):
    """Multiplies in bfloat16 while training where that is faster; everything around it stays in float32."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x):
        return half_linear(x, self.weight) if self.training else F.linear(x, self.weight)


def half_linear(x, weight):
    if not HALF:
        return F.linear(x, weight)
    return F.linear(x.to(torch.bfloat16), weight.to(torch.bfloat16)).to(x.dtype)


class Norm(nn.Module):
    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class Attention(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.s = s
        self.q_proj = Linear(s.hidden_size, s.num_attention_heads * s.head_dim)
        self.k_proj = Linear(s.hidden_size, s.num_key_value_heads * s.head_dim)
        self.v_proj = Linear(s.hidden_size, s.num_key_value_heads * s.head_dim)
        self.o_proj = Linear(s.num_attention_heads * s.head_dim, s.hidden_size)
        self.q_norm = Norm(s.head_dim, s.rms_norm_eps)
        self.k_norm = Norm(s.head_dim, s.rms_norm_eps)

    def forward(self, x, cos, sin, mask):
        s, (b, t, _) = self.s, x.shape
        q = self.q_norm(self.q_proj(x).view(b, t, -1, s.head_dim)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(b, t, -1, s.head_dim)).transpose(1, 2)
        v = self.v_proj(x).view(b, t, -1, s.head_dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        group = s.num_attention_heads // s.num_key_value_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, -1))

    def looks(self, x, cos, sin, mask, head: int):
        """Where one head looks from every position, as logarithms: what can be taught directly."""
        s, group = self.s, self.s.num_attention_heads // self.s.num_key_value_heads
        part = lambda weight, i: weight[i * s.head_dim : (i + 1) * s.head_dim]
        q = rotate(self.q_norm(F.linear(x, part(self.q_proj.weight, head))), cos, sin)
        k = rotate(self.k_norm(F.linear(x, part(self.k_proj.weight, head // group))), cos, sin)
        return (q @ k.mT / s.head_dim**0.5).masked_fill(~mask[:, 0], -1e9).log_softmax(-1)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Mlp(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.gate_proj = Linear(s.hidden_size, s.intermediate_size)
        self.up_proj = Linear(s.hidden_size, s.intermediate_size)
        self.down_proj = Linear(s.intermediate_size, s.hidden_size)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.self_attn = Attention(s)
        self.mlp = Mlp(s)
        self.input_layernorm = Norm(s.hidden_size, s.rms_norm_eps)
        self.post_attention_layernorm = Norm(s.hidden_size, s.rms_norm_eps)

    def forward(self, x, cos, sin, mask):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Inner(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.embed_tokens = nn.Embedding(s.vocab_size, s.hidden_size)
        self.layers = nn.ModuleList(Layer(s) for _ in range(s.num_hidden_layers))
        self.norm = Norm(s.hidden_size, s.rms_norm_eps)


class Model(nn.Module):
    """Parameter names are those of Qwen3ForCausalLM."""

    def __init__(self, s: Shape):
        super().__init__()
        self.s = s
        self.model = Inner(s)
        frequency = s.rope_theta ** (-torch.arange(0, s.head_dim, 2).float() / s.head_dim)
        angles = torch.outer(torch.arange(s.max_position_embeddings).float(), frequency).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for name, p in self.named_parameters():
            if p.ndim < 2:
                continue
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.zeros_(p)
            elif "embed" in name:
                nn.init.normal_(p, std=0.02)
            else:
                nn.init.normal_(p, std=p.shape[1] ** -0.5)

    def forward(self, ids, documents=None, heads=()):
        """Logits; with `documents`, a token sees only tokens of its own document. With `heads`, pairs of a layer and a head,
        also where each of them looks."""
        t = ids.shape[1]
        mask = None
        if documents is not None:
            causal = torch.ones(t, t, dtype=torch.bool, device=ids.device).tril()
            mask = ((documents[:, :, None] == documents[:, None, :]) & causal)[:, None]
        x = self.model.embed_tokens(ids)
        cos, sin = self.cos[:t], self.sin[:t]
        looks = {}
        for i, layer in enumerate(self.model.layers):
            for at, head in heads:
                if at == i:
                    looks[at, head] = layer.self_attn.looks(layer.input_layernorm(x), cos, sin, mask, head)
            x = layer(x, cos, sin, mask)
        x, head = self.model.norm(x), self.model.embed_tokens.weight
        logits = half_linear(x, head) if self.training else F.linear(x, head)
        return (logits, [looks[at, head] for at, head in heads]) if heads else logits
