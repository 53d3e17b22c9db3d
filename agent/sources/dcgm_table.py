"""DCGM's fields by number, as far as the catalogue has them, and their units: those of ``dcgm_fields.h``.

The numbers are stable; DCGM 4.6 renamed the fields, and 4.7 has new numbers for those in base units beside them.
"""

MIB = 2**20
MHZ = 1e6
PERCENT = 1e-2
MILLI = 1e-3

PROFILING_FIELDS = range(1001, 1100)
# A MIG instance has its own share of these; power, clocks and the like are the whole card's.
INSTANCE_FIELDS = frozenset({251, 252, *PROFILING_FIELDS})
# Why metrics without a field are not measured: of Xid errors DCGM keeps the last one's code, and no count.
NO_FIELD = "DCGM does not count it; the sources 'gpm' and 'nvml' do"
# Base units per DCGM unit; the other fields are in base units.
SCALE = {
    92: MIB,
    93: MIB,
    100: MHZ,
    101: MHZ,
    156: MILLI,  # mJ
    203: PERCENT,
    204: PERCENT,
    251: MIB,
    252: MIB,
}
