// SPDX-License-Identifier: MIT
// Misconfigurations: memory regions and protection domains.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstddef>

#include "tests/unit/verbs/misconfigurations/produce.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::misconfigurations {
namespace {

using testing_support::open_soft;

protection_domain domain() { return open_soft().allocate_pd().value(); }

// A page with these protection flags of mmap(2).
class page {
 public:
  explicit page(int protection)
      : memory_(::mmap(nullptr, bytes_, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    EXPECT_NE(memory_, MAP_FAILED);
  }
  page(const page&) = delete;
  page& operator=(const page&) = delete;
  ~page() { unmap(); }

  void unmap() {
    if (mapped_) ::munmap(memory_, bytes_);
    mapped_ = false;
  }
  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(memory_), bytes_};
  }

 private:
  std::size_t bytes_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* memory_;
  bool mapped_ = true;
};

error registering_with(int code, access_flags access) {
  failing_provider failing(*soft_provider().value());
  const auto pd = open_soft(failing.get()).value().allocate_pd().value();
  std::array<std::byte, 64> memory{};
  failing.fail_verb("ibv_reg_mr", code);
  return error_of(pd.register_memory(memory, access));
}

}  // namespace

error no_memory_to_register() { return error_of(domain().register_memory({}, {})); }
error empty_allocation() { return error_of(domain().allocate(0, {})); }
error remote_write_without_local_write() {
  std::array<std::byte, 64> memory{};
  return error_of(domain().register_memory(memory, access::remote_write));
}
error memory_not_mapped() {
  page gone(PROT_READ | PROT_WRITE);
  gone.unmap();
  return error_of(domain().register_memory(gone.bytes(), access::local_write));
}
error memory_read_only() {
  const page constant(PROT_READ);
  return error_of(domain().register_memory(constant.bytes(), access::local_write));
}
error memory_too_much() {
  return error_of(domain().allocate(std::size_t{1} << 59U, access::local_write));
}
error no_huge_pages() {
  return error_of(domain().allocate(std::size_t{1} << 58U, access::local_write,
                                    {.huge_pages = huge_pages::required}));
}
error locked_memory() {
  // Devices of the kernel pin registered memory. The test sets the limit of its process.
  rlimit before{};
  EXPECT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit lowered{.rlim_cur = rlim_t{12} * 1024, .rlim_max = before.rlim_max};
  EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &lowered), 0);
  provider pinning = *soft_provider().value();
  pinning.origin = provider_origin::system;
  failing_provider failing(pinning);
  const auto pd = open_soft(failing.get()).value().allocate_pd().value();
  std::array<std::byte, 64> memory{};
  failing.fail_verb("ibv_reg_mr", ENOMEM);
  error failed = error_of(pd.register_memory(memory, access::local_write));
  EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &before), 0);
  return failed;
}
error regions_exhausted() { return registering_with(ENOMEM, access::local_write); }
error pages_changing() { return registering_with(EAGAIN, access::local_write); }
error access_not_supported() { return registering_with(EOPNOTSUPP, access::local_write); }
error domains_exhausted() {
  failing_provider failing(*soft_provider().value());
  const auto device = open_soft(failing.get()).value();
  failing.fail_verb("ibv_alloc_pd", ENOMEM);
  return error_of(device.allocate_pd());
}

}  // namespace verbena::misconfigurations
