// SPDX-License-Identifier: MIT
// Functions that need no device: our library must return the values of the installed libibverbs or
// librdmacm. Arguments: our library, the installed library.
#include <dlfcn.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>

namespace {

int failures = 0;
int checks = 0;

void expect(bool good, const char* name, int value) {
  ++checks;
  if (good) return;
  if (++failures < 20) std::fprintf(stderr, "%s differs for %d\n", name, value);
}

// A function in both libraries.
template <class Signature>
struct pair {
  Signature* ours;
  Signature* theirs;

  pair(void* our_library, void* their_library, const char* name)
      : ours(reinterpret_cast<Signature*>(dlsym(our_library, name))),
        theirs(reinterpret_cast<Signature*>(dlsym(their_library, name))) {
    expect(ours != nullptr && theirs != nullptr && ours != theirs, name, 0);
  }
};

struct libraries {
  void* ours;
  void* theirs;
};

template <class Enumeration>
void compare_texts(const libraries& both, const char* name, int last = 200) {
  using function = const char*(Enumeration);
  const pair<function> texts(both.ours, both.theirs, name);
  for (int i = -3; i <= last; ++i) {
    const auto value = static_cast<Enumeration>(i);
    expect(std::strcmp(texts.ours(value), texts.theirs(value)) == 0, name, i);
  }
}

void compare_rates(const libraries& both) {
  for (const char* name : {"ibv_rate_to_mult", "ibv_rate_to_mbps"}) {
    const pair<int(ibv_rate)> rates(both.ours, both.theirs, name);
    for (int i = -3; i < 100; ++i) {
      const auto rate = static_cast<ibv_rate>(i);
      expect(rates.ours(rate) == rates.theirs(rate), name, i);
    }
  }
  for (const char* name : {"mult_to_ibv_rate", "mbps_to_ibv_rate"}) {
    const pair<ibv_rate(int)> rates(both.ours, both.theirs, name);
    for (int i = -3; i < 1500000; ++i) expect(rates.ours(i) == rates.theirs(i), name, i);
  }
}

template <class To, class From>
void compare_copies(const libraries& both, const char* name) {
  using function = void(To*, From*);
  const pair<function> copies(both.ours, both.theirs, name);
  std::mt19937 numbers(17);
  for (int round = 0; round < 200; ++round) {
    From from;
    To ours;
    std::array<std::byte, sizeof from> bytes;
    for (auto& byte : bytes) byte = static_cast<std::byte>(numbers());
    std::memcpy(static_cast<void*>(&from), bytes.data(), sizeof from);
    // Bytes that are not copied must stay unchanged.
    std::memset(static_cast<void*>(&ours), round, sizeof ours);
    To theirs;
    std::memset(static_cast<void*>(&theirs), round, sizeof theirs);
    copies.ours(&ours, &from);
    copies.theirs(&theirs, &from);
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): padding must also stay unchanged
    expect(std::memcmp(&ours, &theirs, sizeof ours) == 0, name, round);
  }
}

void compare_files(const libraries& both) {
  using read_function = int(const char*, const char*, char*, std::size_t);
  const pair<read_function> reads(both.ours, both.theirs, "ibv_read_sysfs_file");
  const pair<const char*()> paths(both.ours, both.theirs, "ibv_get_sysfs_path");
  expect(std::strcmp(paths.ours(), paths.theirs()) == 0, "ibv_get_sysfs_path", 0);
  for (const char* file : {"sys/kernel/ostype", "net/dev", "not_there", "self/cmdline"}) {
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{4}, std::size_t{6}, std::size_t{64}}) {
      std::array<char, 64> ours{};
      std::array<char, 64> theirs{};
      const int our_count = reads.ours("/proc", file, ours.data(), size);
      const int their_count = reads.theirs("/proc", file, theirs.data(), size);
      expect(our_count == their_count && ours == theirs, file, static_cast<int>(size));
    }
  }
}

int report() {
  std::printf("%d checks, %d failures\n", checks, failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const libraries both{argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr,
                       argc == 3 ? dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) : nullptr};
  if (both.ours == nullptr || both.theirs == nullptr || both.ours == both.theirs) {
    std::fprintf(stderr, "two libraries are needed\n");
    return 2;
  }
  if (dlsym(both.theirs, "rdma_event_str") != nullptr) {  // librdmacm has no other text functions
    compare_texts<rdma_cm_event_type>(both, "rdma_event_str", RDMA_CM_EVENT_TIMEWAIT_EXIT);
    return report();
  }
  compare_texts<ibv_event_type>(both, "ibv_event_type_str");
  compare_texts<ibv_node_type>(both, "ibv_node_type_str");
  compare_texts<ibv_port_state>(both, "ibv_port_state_str");
  compare_texts<ibv_wc_status>(both, "ibv_wc_status_str");
  compare_rates(both);
  compare_copies<ibv_ah_attr, ib_uverbs_ah_attr>(both, "ibv_copy_ah_attr_from_kern");
  compare_copies<ibv_qp_attr, ib_uverbs_qp_attr>(both, "ibv_copy_qp_attr_from_kern");
  compare_copies<ibv_sa_path_rec, ib_user_path_rec>(both, "ibv_copy_path_rec_from_kern");
  compare_copies<ib_user_path_rec, ibv_sa_path_rec>(both, "ibv_copy_path_rec_to_kern");
  compare_files(both);
  const pair<int()> fork_init(both.ours, both.theirs, "ibv_fork_init");
  expect(fork_init.ours() == fork_init.theirs(), "ibv_fork_init", 0);
  const pair<int()> fork_state(both.ours, both.theirs, "ibv_is_fork_initialized");
  expect(fork_state.ours() == fork_state.theirs(), "ibv_is_fork_initialized", 0);
  return report();
}
