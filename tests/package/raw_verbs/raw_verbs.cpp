// SPDX-License-Identifier: MIT
// Registers memory with soft0 by verbs alone.
#include <infiniband/verbs.h>

#include <array>
#include <cstdio>
#include <string_view>

int main() {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  for (int i = 0; list != nullptr && i < count; ++i) {
    if (ibv_get_device_name(list[i]) != std::string_view("soft0")) continue;
    ibv_context* const context = ibv_open_device(list[i]);
    ibv_pd* const pd = context != nullptr ? ibv_alloc_pd(context) : nullptr;
    static std::array<char, 4096> memory;
    const int access = IBV_ACCESS_LOCAL_WRITE;
    if (pd == nullptr || !ibv_reg_mr(pd, memory.data(), memory.size(), access)) {
      std::perror("soft0");
      return 1;
    }
    std::printf("raw verbs: soft0 registered %zu bytes; %s\n", memory.size(),
                ibv_wc_status_str(IBV_WC_SUCCESS));
    return 0;
  }
  std::puts("raw verbs: there is no soft0");
  return 1;
}
