// SPDX-License-Identifier: Apache-2.0
// What look_at_code.cmake compiles and reads: each read_by_* has to be the code of the plain load,
// and looked_at_* must not be, or the reader of the code sees no difference at all.

#include <spolia/reclaim.hpp>

struct node {
  int key;
};
using source_of = spolia::atomic<node*>;

template <class Scheme>
using guard_of = typename spolia::domain<Scheme>::guard;

extern "C" {

node* plain_load(void*, const source_of& source) { return source.load_acquire(); }

node* read_by_token(guard_of<spolia::token>& g, const source_of& source) {
  return g.protect(source).get();
}
node* read_by_token_naive(guard_of<spolia::token_naive>& g, const source_of& source) {
  return g.protect(source).get();
}
node* read_by_debra(guard_of<spolia::debra>& g, const source_of& source) {
  return g.protect(source).get();
}
node* read_by_quiescent(guard_of<spolia::qsbr>& g, const source_of& source) {
  return g.protect(source).get();
}
node* read_by_reservations(guard_of<spolia::reservations>& g, const source_of& source) {
  return g.protect(source).get();
}
node* read_by_none(guard_of<spolia::none>& g, const source_of& source) {
  return g.protect(source).get();
}

node* looked_at_by_hazard_pointers(guard_of<spolia::hazard_pointers>& g, const source_of& source) {
  return g.protect(source).get();
}

}  // extern "C"
