// SPDX-License-Identifier: Apache-2.0
// An incomplete type has a destructor that is not known here: it needs a deleter.
// refused: give a deleter
#include <spolia/memory.hpp>

struct handle;
handle* open_handle();
void close_handle(handle*);

void use() {
#if defined(REFUSED)
  spolia::shared_ptr<handle> p(open_handle());
#else
  spolia::shared_ptr<handle> p(open_handle(), close_handle);
#endif
}
