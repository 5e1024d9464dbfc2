"""The model itself: packed documents, and what is saved or computed again."""

from collections import Counter
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from everstep.contracts.models import LLAMA31, ModelConfig
from everstep.contracts.training_spec import Train
from trainer.blocks import prepare
from trainer.model import Block, Part, Transformer, initial_values

SHAPE = ModelConfig(dim=32, layers=3, heads=4, kv_heads=2, ffn_dim=64, vocab_size=64)


def whole(shape: ModelConfig = SHAPE) -> Transformer:
    model = Transformer(shape)
    fill(model, shape)
    return model


def fill(model: Transformer, shape: ModelConfig) -> None:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            larger = 10 if parameter.dim() > 1 else 1  # that attention has something to tell apart
            parameter.copy_(larger * initial_values(shape, name, parameter.shape, 0))


def packed(lengths: list[int]) -> tuple[Tensor, Tensor]:
    """Positions and documents of one window."""
    positions = torch.cat([torch.arange(n) for n in lengths])
    documents = torch.cat([torch.full((n,), i) for i, n in enumerate(lengths)])
    return positions.unsqueeze(0), documents.unsqueeze(0)


@pytest.mark.parametrize("shape", [SHAPE, SHAPE.model_copy(update={"rope_scaling": LLAMA31})])
def test_packed_documents_are_as_if_alone(shape: ModelConfig) -> None:
    lengths = [5, 1, 9]
    tokens = torch.randint(0, 64, (1, sum(lengths)), generator=torch.Generator().manual_seed(1))
    model = whole(shape)
    together = model(tokens, *packed(lengths))
    alone = torch.cat([model(part) for part in tokens.split(lengths, dim=1)], dim=1)
    assert (together - alone).abs().max() < 1e-5
    # and it matters: without the documents the later ones see the first
    assert (model(tokens) - alone).abs().max() > 1e-2
    positions, documents = packed(lengths)
    assert (model(tokens, None, documents) - alone).abs().max() < 1e-4  # rotations are relative
    assert (model(tokens, positions, None) - alone).abs().max() > 1e-2


def test_parts_of_a_pipeline_are_the_whole() -> None:
    tokens = torch.randint(0, 64, (2, 15), generator=torch.Generator().manual_seed(1))
    positions, documents = (x.expand(2, -1) for x in packed([5, 1, 9]))
    hidden = tokens
    names: list[str] = []
    for number in range(3):
        part = Transformer(SHAPE, Part(number, 3))
        fill(part, SHAPE)
        hidden = part(hidden, positions, documents)
        names += [name for name, _ in part.named_parameters()]
    model = whole()
    assert torch.equal(hidden, model(tokens, positions, documents))
    assert sorted(names) == sorted(name for name, _ in model.named_parameters())


@pytest.mark.parametrize(("layers", "stages"), [(5, 2), (7, 4), (80, 16), (3, 3)])
def test_layers_are_spread_evenly(layers: int, stages: int) -> None:
    parts = [Part(number, stages).layers(layers) for number in range(stages)]
    assert [layer for part in parts for layer in part] == list(range(layers))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


class Computed(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts[func.overloadpacket._qualified_op_name] += 1
        return func(*args, **(kwargs or {}))


def gradients(**recipe: Any) -> tuple[list[Tensor], Counter[str]]:
    """With dropout: what is computed again must draw the same masks again."""
    shape = SHAPE.model_copy(update={"dropout": 0.1})
    model = whole(shape)
    for block in model.blocks.values():
        prepare(cast(Block, block), Train(**recipe))
    tokens = torch.randint(0, 64, (2, 16), generator=torch.Generator().manual_seed(1))
    torch.manual_seed(2)
    with Computed() as computed:
        model(tokens).float().logsumexp(-1).sum().backward()
    return [cast(Tensor, p.grad) for p in model.parameters()], computed.counts


def test_what_is_computed_again() -> None:
    wanted, plain = gradients()
    full, all_again = gradients(activation_checkpointing="full")
    selective, cheap_again = gradients(activation_checkpointing="selective")
    for found in (full, selective):
        assert all(torch.equal(one, other) for one, other in zip(wanted, found, strict=True))
    blocks = SHAPE.layers
    assert all_again["aten::silu"] == cheap_again["aten::silu"] == 2 * plain["aten::silu"]
    # the last product of a block is needed by none of its gradients
    assert plain["aten::mm"] + 6 * blocks <= all_again["aten::mm"] <= plain["aten::mm"] + 7 * blocks
    assert cheap_again["aten::mm"] == plain["aten::mm"]
    attention = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert plain[attention] == cheap_again[attention] == blocks
    assert all_again[attention] == 2 * blocks


@pytest.mark.slow
def test_a_compiled_block_trains_the_same() -> None:
    with torch.random.fork_rng():
        shape = SHAPE.model_copy(update={"layers": 2})
        tokens = torch.randint(0, 64, (2, 16), generator=torch.Generator().manual_seed(1))
        curves = []
        for compiled in (False, True):
            model = whole(shape)
            for block in model.blocks.values():
                prepare(cast(Block, block), Train(compile=compiled))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            curves.append([])
            for _ in range(5):
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(
                    model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()
                )
                loss.backward()
                optimizer.step()
                curves[-1].append(loss.item())
    assert curves[0][-1] < curves[0][0]
    assert curves[1] == pytest.approx(curves[0], rel=1e-4)
