from collections.abc import Mapping

from xpulpnn.config import PRESETS as PRESETS
from xpulpnn.config import CoreConfig as CoreConfig
from xpulpnn.config import DotpConfig as DotpConfig
from xpulpnn.config import preset as preset
from xpulpnn.core.backend import Backend as Backend
from xpulpnn.core.core import Core as Core
from xpulpnn.core.ex_stage import ExStage as ExStage
from xpulpnn.core.mult import Mult as Mult
from xpulpnn.core.obi import InstructionPortSignature as InstructionPortSignature
from xpulpnn.core.obi import ObiSignature as ObiSignature
from xpulpnn.core.simd_alu import SimdAlu as SimdAlu
from xpulpnn.dotp.nnrf import NnRf as NnRf
from xpulpnn.dotp.unit import DotpUnit as DotpUnit

HOMES: Mapping[str, str]
