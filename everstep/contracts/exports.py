"""What an export leaves behind: the final weights in another format, manifest last.

Layout below an export's URI::

    config.json  model-00001-of-00003.safetensors  …  model.safetensors.index.json  tokenizer.json
    export.json                                    written last: without it, no export
"""

from pydantic import BaseModel, ConfigDict

from everstep.contracts.manifest import ManifestEntry

EXPORT_MANIFEST = "export.json"


class ExportManifest(BaseModel):
    """Whoever exports writes this last; ``entries`` is every other file."""

    model_config = ConfigDict(frozen=True)

    schema_version: int = 1
    checkpoint: str
    """Name of the checkpoint that the weights are of: ``step-00000120.00002``."""
    step: int
    tokens: int
    dtype: str
    """``bf16`` or ``fp32``."""
    parameters: int
    entries: list[ManifestEntry]
