# SPDX-License-Identifier: Apache-2.0
# Every header, by name; `./dev lint` compares this with the tree. Public headers are installed and
# must each compile alone; those of the model checker belong to the model flavour.

set(SPOLIA_HEADERS
    include/spolia/base/atomic.hpp
    include/spolia/base/backoff.hpp
    include/spolia/base/cells.hpp
    include/spolia/base/clock.hpp
    include/spolia/base/config.hpp
    include/spolia/base/counters.hpp
    include/spolia/base/export.hpp
    include/spolia/base/fence.hpp
    include/spolia/base/memory.hpp
    include/spolia/base/misuse.hpp
    include/spolia/base/signals.hpp
    include/spolia/base/source.hpp
    include/spolia/base/threads.hpp
    include/spolia/base/ticks.hpp
    include/spolia/base/trace.hpp
    include/spolia/map.hpp
    include/spolia/map/abtree.hpp
    include/spolia/map/concepts.hpp
    include/spolia/map/detail/abtree_audit.hpp
    include/spolia/map/detail/abtree_nodes.hpp
    include/spolia/map/detail/abtree_search.hpp
    include/spolia/map/detail/abtree_steps.hpp
    include/spolia/map/detail/list_chain.hpp
    include/spolia/map/detail/scx.hpp
    include/spolia/map/list.hpp
    include/spolia/map/marked_ptr.hpp
    include/spolia/map/size_counter.hpp
    include/spolia/reclaim.hpp
    include/spolia/reclaim/biased_gate.hpp
    include/spolia/reclaim/concepts.hpp
    include/spolia/reclaim/debra.hpp
    include/spolia/reclaim/domain.hpp
    include/spolia/reclaim/domain_cell.hpp
    include/spolia/reclaim/epoch_bags.hpp
    include/spolia/reclaim/guard.hpp
    include/spolia/reclaim/hazard_pointers.hpp
    include/spolia/reclaim/limbo.hpp
    include/spolia/reclaim/neutralization.hpp
    include/spolia/reclaim/none.hpp
    include/spolia/reclaim/read_phase.hpp
    include/spolia/reclaim/release.hpp
    include/spolia/reclaim/rounds.hpp
    include/spolia/reclaim/slots.hpp
    include/spolia/reclaim/statistics.hpp
    include/spolia/reclaim/token.hpp
    include/spolia/reclaim/token_ring.hpp
    include/spolia/version.hpp)

set(SPOLIA_MODEL_HEADERS
    include/spolia/model/cells.hpp
    include/spolia/model/engine.hpp
    include/spolia/model/fault.hpp
    include/spolia/model/hooks.hpp)
