// SPDX-License-Identifier: Apache-2.0
// The compiler names the page that says what a scheme must offer.
// refused: see docs/scheme-contract.md
#include <spolia/reclaim.hpp>

struct incomplete : spolia::token {
  using spolia::token::token;
#if defined(REFUSED)
  void adopt(local&, local&) = delete;
#endif
};

std::size_t waiting(spolia::domain<incomplete>& nodes) { return nodes.garbage(); }
