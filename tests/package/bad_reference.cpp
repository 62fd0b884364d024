// SPDX-License-Identifier: MIT
// What no code of ours may do: call a verb directly. Proves that check_symbols.py sees it.
#include <infiniband/verbs.h>

int ask(ibv_context* context, ibv_port_attr* attributes) {
  return ibv_query_port(context, 1, attributes);
}
