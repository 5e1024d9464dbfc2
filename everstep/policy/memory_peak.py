"""GPU memory of the fullest rank, by part, at the moment of a step when it holds most.

What FSDP2 keeps, and when: parameters and optimizer in fp32 shards; a group's parameters gathered
in the compute type while it runs, the next group's while it waits; the rest of the model
(embedding, norm, output: the root group) through the whole backward pass; gradients whole in the
compute type, then in fp32 for the reduction. A pipeline adds a buffer for every microbatch that a
stage receives in a step, and leaves gathered what has gone back. Held to torch's own
FSDPMemTracker, running ``trainer``'s code, by tests/trainer/test_memory.py.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from everstep.contracts.mesh import Mesh
from everstep.contracts.models import ModelConfig
from everstep.contracts.training_spec import Lora, Parallelism, Sharding, Train
from everstep.policy.memory_shapes import (
    Group,
    adapter_group,
    block_group,
    computed_again,
    root_group,
    saved_in_block,
)

MASTER = 4
"""Bytes of a parameter, a reduced gradient, a moment: fp32."""
NONE = Group(0, 0)


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes on the rank that holds most, at the moment of a step when it holds most."""

    parameters: int
    optimizer: int
    gradients: int
    """From one microbatch to the next, and reduced ones."""
    activations: int
    """Made by forward (or again in backward) for the backward pass, of all microbatches in flight;
    in a pipeline also the buffers to receive them in."""
    working: int
    """Gathered parameters, gradients on their way."""

    @property
    def total(self) -> int:
        return sum(asdict(self).values())

    @property
    def forward_backward_peak(self) -> int:
        """Before the optimizer has any state."""
        return self.total - self.optimizer

    def as_dict(self) -> dict[str, int]:
        return {**asdict(self), "total": self.total}


def memory_plan(
    shape: ModelConfig,
    parallelism: Parallelism,
    mesh: Mesh,
    train: Train,
    lora: Lora | None = None,
) -> MemoryPlan:
    """``mesh`` as laid out: see ``everstep.contracts.mesh.sharded``."""
    ranks = (Rank(shape, parallelism, mesh, train, lora, x) for x in range(mesh.pipeline))
    return max((rank.plan() for rank in ranks), key=lambda plan: plan.total)


Moment = tuple[int, int, int]
"""Gradients, activations, working."""


class Rank:
    """That of one pipeline position; data and tensor ranks are alike."""

    def __init__(
        self,
        shape: ModelConfig,
        parallelism: Parallelism,
        mesh: Mesh,
        train: Train,
        lora: Lora | None,
        number: int,
    ) -> None:
        self._shape, self._mesh, self._train, self._lora = shape, mesh, train, lora
        self._sharding, self._turns = parallelism.sharding, parallelism.virtual_stages
        self._number = number
        self._wide = 4 if train.dtype == "fp32" else 2
        self._tokens = train.micro_batch * train.sequence_length
        self._micro_batches = max(1, train.global_batch // (mesh.data_ranks * train.micro_batch))
        count = mesh.pipeline * self._turns
        self._last_stage = count - 1
        self._stages = range(number, count, mesh.pipeline)
        self._layers = {
            x: (x + 1) * shape.layers // count - x * shape.layers // count for x in self._stages
        }
        self._roots = {
            x: root_group(shape, mesh, first=x == 0, last=x == count - 1) for x in self._stages
        }
        adapters = NONE if lora is None else adapter_group(shape, lora, mesh)
        base = block_group(shape, mesh)
        self._block = Group(base.whole + adapters.whole, base.shard + adapters.shard)
        self._learns = adapters if lora is not None else self._block
        self._layer = self._tokens * saved_in_block(shape, mesh.tensor, self._wide, train, lora)

    def plan(self) -> MemoryPlan:
        held = self._sum(self._block.shard) + sum(x.shard for x in self._roots.values())
        optimizer = 2 * MASTER if self._train.optimizer == "adamw" else 0
        gradients, activations, working = max(self.moments(), key=sum)
        return MemoryPlan(
            parameters=MASTER * held,
            optimizer=optimizer * self._trained.shard,
            gradients=gradients,
            activations=activations,
            working=working,
        )

    def moments(self) -> Iterator[Moment]:
        """Those of a step at which most may be held."""
        kept, reduced = self._between()
        if self._mesh.pipeline == 1:
            yield from self._sharded_moments(kept, reduced)
            return
        whole_steps = self._micro_batches * self._turns
        yield from self._pipeline_moments(0, self._in_flight(whole_steps))
        # gradients are all there once each of this rank's stages has gone back
        yield from self._pipeline_moments(kept, self._in_flight(whole_steps - self._turns))
        largest = max(self._block.whole, *(x.whole for x in self._roots.values()))
        gathered = self._wide * self._whole
        yield kept, self._received, gathered + MASTER * largest

    def _sharded_moments(self, kept: int, reduced: int) -> Iterator[Moment]:
        wide, block, root = self._wide, self._block, self._roots[0]
        between, saved = kept + reduced, self._saved(0)
        stays = self._sharding in (Sharding.SHARD_GRAD_OP, Sharding.NO_SHARD)
        gathered = wide * (self._whole if stays else root.whole + 2 * block.whole)
        # a block that has gone back is let go, unless the next microbatch wants it
        released = wide * block.whole if stays and not between else 0
        for made, grown in self._logits():
            yield between, saved + made, grown + (wide * self._whole if stays else 0)
        # the last block's parameters are copied from what was received; the former's lie there too
        copied = wide * (self._whole if stays else root.whole + block.whole)
        yield 0 if stays else between, saved - self._layer, copied + 2 * wide * block.whole
        flowing = gathered + self._of_output
        yield between, saved, flowing + wide * self._logit_elements
        again = saved + self._again
        yield between, again, flowing + self._flowing
        # the second block, while the first one's gradients are reduced: as it begins, and as its
        # own are there
        one = between or MASTER * self._learns.shard
        reducing = flowing - released + self._flowing + MASTER * self._learns.whole
        yield one, again - self._layer, reducing
        yield one, saved - self._layer, reducing + wide * self._learns.whole
        if self._lora is None:  # the root group's gradients, last of all
            last = (2 * wide + MASTER) * root.whole + MASTER * root.shard
            yield kept or MASTER * self._trained.shard, 0, last

    def _pipeline_moments(self, kept: int, in_flight: Counter[int]) -> Iterator[Moment]:
        saved = self._received + sum(n * self._saved(x) for x, n in in_flight.items())
        for stage in self._stages:
            root, layers, again = self._roots[stage].whole, self._layers[stage], self._again
            out = 0
            if stage == self._last_stage:
                out = self._of_output
                for made, grown in self._logits():
                    yield kept, saved + made, grown
                yield kept, saved, out + self._wide * (root + self._logit_elements)
            # just gathered: what was received lies beside what it was copied to
            gathered = 2 * self._wide * (root + self._block.whole)
            yield kept, saved + again, gathered + out + self._flowing
            gathered = self._wide * (root + layers * self._block.whole)
            gone = (layers - 1) * self._layer
            yield kept, saved - gone + again, gathered + self._flowing

    # --- parameters and gradients

    def _sum(self, block: int) -> int:
        return sum(self._layers.values()) * block

    @property
    def _whole(self) -> int:
        return self._sum(self._block.whole) + sum(x.whole for x in self._roots.values())

    @property
    def _trained(self) -> Group:
        """Of all groups."""
        roots = [] if self._lora is not None else list(self._roots.values())
        return Group(
            self._sum(self._learns.whole) + sum(x.whole for x in roots),
            self._sum(self._learns.shard) + sum(x.shard for x in roots),
        )

    def _between(self) -> tuple[int, int]:
        """Bytes from one microbatch to the next: whole gradients, or shards of them."""
        if self._micro_batches == 1:
            return 0, 0
        if self._sharding is Sharding.NO_SHARD or self._mesh.pipeline > 1:
            return MASTER * self._trained.whole, 0
        return 0, MASTER * self._trained.shard

    @property
    def _of_output(self) -> int:
        """The output matrix's gradient, before it is reduced."""
        if self._lora is not None:
            return 0
        return self._wide * self._shape.vocab_size * self._shape.dim // self._mesh.tensor

    # --- activations

    def _saved(self, stage: int) -> int:
        """By one microbatch, between forward and backward."""
        tensor, dim = self._mesh.tensor, self._shape.dim
        saved = self._layers[stage] * self._layer
        if stage == self._last_stage:  # the norm, and the output's input
            learns = self._lora is None
            saved += self._tokens * dim * ((8 if learns else 4) // tensor + self._wide * learns)
            if self._mesh.pipeline > 1:  # a stage keeps what it returned
                saved += self._wide * self._logit_elements
        else:
            saved += self._tokens * dim * self._wide // tensor
        return saved

    @property
    def _received(self) -> int:
        """A buffer a microbatch and neighbour: of the whole step, made once."""
        ways = sum((x > 0) + (x < self._last_stage) for x in self._stages)
        each = self._tokens * self._shape.dim * self._wide // self._mesh.tensor
        return ways * self._micro_batches * each

    def _in_flight(self, steps: int) -> Counter[int]:
        """Forward passes by stage whose backward is to come, at most; of ``steps`` that remain.
        1F1B, or interleaved 1F1B as torch orders it."""
        pipeline, ahead = self._mesh.pipeline, self._mesh.pipeline - 1 - self._number
        rounds = max(1, self._micro_batches // pipeline)
        each = self._micro_batches // rounds
        if self._turns == 1:
            return Counter({self._number: min(ahead + 1, steps)})
        most = min((self._turns - 1) * each + 2 * ahead + 1, steps)
        return Counter(self._stages[x // each % self._turns] for x in range(most))

    @property
    def _logit_elements(self) -> int:
        return self._tokens * self._shape.vocab_size // self._mesh.tensor

    def _logits(self) -> Iterator[tuple[int, int]]:
        """Activations and gradients of the loss. Forward: logits in fp32, their log-softmax (cut by
        vocabulary: shares), and logits as they came, where they are no fp32 and no pipeline counts
        them. Backward of a whole one: log-softmax, and two gradients of its size, in fp32; with the
        z-loss the logits, and a third."""
        each = self._logit_elements
        came = self._wide if self._wide < MASTER and self._mesh.pipeline == 1 else 0
        yield (8 + came) * each, 0
        if self._mesh.tensor == 1:
            z_loss = 4 if self._train.z_loss else 0
            yield (4 + z_loss) * each, (8 + z_loss) * each

    @property
    def _again(self) -> int:
        shape, tensor = self._shape, self._mesh.tensor
        return self._tokens * computed_again(shape, tensor, self._wide, self._train, self._lora)

    @property
    def _flowing(self) -> int:
        """Gradients of activations, in the feed-forward part."""
        hidden = 4 * self._shape.ffn_dim + self._shape.dim
        return self._wide * hidden * self._tokens // self._mesh.tensor
