// SPDX-License-Identifier: MIT
// Functions that the drop-in forwards without knowledge of their arguments. LD_PRELOAD contains the
// drop-in; the fake libibverbs replaces the real library. Argument: the drop-in's private symbol
// version.
#include <dlfcn.h>

#include <cerrno>
#include <cstdio>
#include <initializer_list>

namespace {

int failures = 0;

void expect(bool good, const char* what) {
  if (good) return;
  ++failures;
  std::fprintf(stderr, "%s\n", what);
}

template <class Signature>
Signature* find(const char* name, const char* version) {
  auto* const found = reinterpret_cast<Signature*>(dlvsym(RTLD_DEFAULT, name, version));
  if (found == nullptr) std::fprintf(stderr, "%s@%s is not there\n", name, version);
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const char* const node = argv[1];
  auto* const many =
      find<int(long, long, long, long, long, long, long, long, long, long)>("ibv_cmd_reg_mr", node);
  auto* const floats = find<double(double, double, double, double)>("verbs_set_ops", node);
  auto* const code = find<int(void*)>("ibv_cmd_alloc_pd", node);
  auto* const null = find<void*(void*)>("verbs_open_device", node);
  auto* const nothing = find<void(void*)>("verbs_init_cq", node);
  auto* const old_list = find<void*(int*)>("ibv_get_device_list", "IBVERBS_1.0");
  auto* const new_list = find<void*(int*)>("ibv_get_device_list", "IBVERBS_1.1");
  if (failures != 0 || many == nullptr || floats == nullptr || code == nullptr || null == nullptr ||
      nothing == nullptr || old_list == nullptr || new_list == nullptr)
    return 1;
  for (const char* when : {"the first call", "the second call"}) {
    expect(many(1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000) == 0, when);
    expect(floats(1, 2, 3, 4) == 4321, when);
    errno = 0;
    expect(code(nullptr) == EOPNOTSUPP && errno == EOPNOTSUPP, "a code");
    errno = 0;
    expect(null(nullptr) == nullptr && errno == EOPNOTSUPP, "a null pointer");
    errno = 0;
    nothing(nullptr);
    expect(errno == EOPNOTSUPP, "nothing but errno");
  }
  expect(old_list != new_list, "the old version of a function is another function");
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
