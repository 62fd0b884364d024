// SPDX-License-Identifier: MIT
#include "src/verbs/diagnosis.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>

#include "src/sys/missing_verb.hpp"
#include "src/verbs/text.hpp"
#include "verbena/verbs/detail/call.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

const char* const device_gone = "the device was removed or has failed";
const char* const listing_forbidden =
    "this process has no permission to list RDMA devices: a control group, a seccomp filter or a "
    "security module forbids it; a container needs access to /dev/infiniband";
const char* const opening_forbidden =
    "this user has no permission to open the device: check the mode of /dev/infiniband/uverbs*, "
    "the groups of the user and, in a container, the permitted devices";

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : byte_text(limit);
}

// Queries the attributes of the device; returns false if that fails.
bool query(queried_device device, ibv_device_attr& attributes) {
  return !call(device.from->verbs.query_device, device.context, &attributes).failed;
}

std::string explain_memory_limit(queried_device device, registration wanted) {
  std::string text;
  rlimit limit{};
  const bool pins = device.from->origin != provider_origin::soft;
  if (pins && ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
    text = fmt::format("the limit of locked memory is {} (hard limit {}), this region needs {}",
                       limit_text(limit.rlim_cur), limit_text(limit.rlim_max),
                       byte_text(wanted.bytes));
    if (limit.rlim_cur != RLIM_INFINITY)
      text +=
          ": raise it with `ulimit -l unlimited`, memlock in /etc/security/limits.conf or "
          "LimitMEMLOCK= of the service";
    text += "; ";
  }
  ibv_device_attr attributes{};
  if (!query(device, attributes)) return text;
  const std::string most = attributes.max_mr_size == ~std::uint64_t{0}
                               ? "any size"
                               : "at most " + byte_text(attributes.max_mr_size);
  text += fmt::format(
      "{}{} regions of {}",
      text.empty() ? "the device has room for " : "or the device is full: it has room for ",
      attributes.max_mr, most);
  return text;
}

// Returns whether the page of an address is mapped. mincore(2) fails with ENOMEM if it is not.
bool is_mapped(std::uintptr_t address) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  unsigned char unused = 0;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is all that is known of the memory
  return ::mincore(reinterpret_cast<void*>(address / page * page), page, &unused) == 0 ||
         errno != ENOMEM;
}

std::string explain_mapping(registration wanted) {
  const auto first = reinterpret_cast<std::uintptr_t>(wanted.memory);
  if (!is_mapped(first) || !is_mapped(first + (wanted.bytes - 1)))
    return "the memory is not mapped: it was freed, or the length is wrong";
  return fmt::format(
      "the memory is mapped read-only and the access flags {} include writing, or not all of "
      "its pages are mapped",
      to_string(wanted.access));
}

}  // namespace

std::string explain_listing(int code) {
  switch (code) {
    case ENOSYS:
      return "the kernel's RDMA interface is missing: load it with `modprobe ib_uverbs`; a "
             "container needs /dev/infiniband and /sys/class/infiniband";
    case EPERM:
    case EACCES:
      return listing_forbidden;
    default:
      return {};
  }
}

std::string explain_missing_hardware(std::span<const device> listed) {
  std::error_code failed;
  std::string names;
  // A range-for would throw exceptions: it increments without an error_code.
  std::filesystem::directory_iterator entry("/sys/class/infiniband", failed);
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    const bool has_driver = std::any_of(
        listed.begin(), listed.end(), [&name](const device& each) { return each.name() == name; });
    if (!has_driver) names += (names.empty() ? "" : ", ") + name;
  }
  if (names.empty()) return {};
  return fmt::format(
      "the kernel has {}, but libibverbs has no driver for it: install the providers (`apt install "
      "ibverbs-providers`, `dnf install libibverbs`, `pacman -S rdma-core`), or set "
      "IBV_SHOW_WARNINGS=1 for its warnings",
      names);
}

std::string explain_opening(int code) {
  switch (code) {
    case EPERM:
    case EACCES:
      return opening_forbidden;
    case ENOENT:
    case ENODEV:
    case ENXIO:
      return "its file in /dev/infiniband does not exist: the device was removed, or the container "
             "has no access to the device";
    case EMFILE:
    case ENFILE:
      return "no file descriptor is free: raise the limit with `ulimit -n`";
    case ENOMEM:
      return "the host has too little memory, or the rdma cgroup's limit of hca_handle is reached";
    default:
      return {};
  }
}

std::string explain_port(int code, queried_device device, port_number port) {
  if (code == ENODEV || code == EIO) return device_gone;
  ibv_device_attr attributes{};
  if (!query(device, attributes)) return {};
  const unsigned ports = attributes.phys_port_cnt;
  if (port.value() >= 1 && port.value() <= ports) return {};
  return fmt::format("there is no port {}: the device has {}, counted from 1", port.value(),
                     counted(ports, "port"));
}

std::string explain_pd(int code, queried_device device) {
  if (code == ENODEV || code == EIO) return device_gone;
  ibv_device_attr attributes{};
  if (code != ENOMEM || !query(device, attributes)) return {};
  return fmt::format(
      "the device has room for {} protection domains, and the rdma control group may permit fewer",
      attributes.max_pd);
}

std::string explain_registration(int code, queried_device device, registration wanted) {
  const access_flags access = wanted.access;
  switch (code) {
    case ENOMEM:
      return explain_memory_limit(device, wanted);
    case EFAULT:
      return explain_mapping(wanted);
    case EAGAIN:
      return "the pages changed while they were registered: try again";
    case EOPNOTSUPP:
      return access.contains(access::on_demand)
                 ? "the device does not support on-demand paging: omit access::on_demand"
                 : fmt::format("the device does not support the access flags {}",
                               to_string(access));
    case EINVAL: {
      if (wanted.offset_in_page_differs)
        return "the memory and its iova have different offsets in their pages";
      ibv_device_attr attributes{};
      if (query(device, attributes) && wanted.bytes > attributes.max_mr_size)
        return fmt::format("the region of {} exceeds the device's maximum of {}",
                           byte_text(wanted.bytes), byte_text(attributes.max_mr_size));
      return fmt::format("the device refuses the access flags {} or the memory", to_string(access));
    }
    case ENODEV:
    case EIO:
      return device_gone;
    default:
      return {};
  }
}

bool differ_in_page(std::uint64_t a, std::uint64_t b) noexcept {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return (a ^ b) % page != 0;
}

std::string explain_dmabuf(int code, queried_device device, registration wanted) {
  switch (code) {
    case EBADF:
      return "the descriptor is not open, or is not of a dma-buf";
    case EOPNOTSUPP:
    case ENOSYS: {
      const std::string missing = sys::explain_missing(*device.from, "ibv_reg_dmabuf_mr");
      return missing.empty()
                 ? "the device, its driver or the kernel (before 5.12) does not support dma-buf"
                 : missing;
    }
    case EFAULT:
      return "the device cannot access the memory of the dma-buf";
    case EINVAL:
      if (!wanted.offset_in_page_differs)
        return fmt::format(
            "the range exceeds the dma-buf, the descriptor is not of a dma-buf, or the device "
            "refuses the access flags {}",
            to_string(wanted.access));
      break;
    default:
      break;
  }
  return explain_registration(code, device, wanted);
}

std::string explain_advice(int code, memory_advice advice) {
  switch (code) {
    case EOPNOTSUPP:
    case ENOSYS:
      return fmt::format(
          "the device does not support the advice {}: omit it, work requests fault pages in on "
          "access",
          to_string(advice));
    case EFAULT:
      return "a slice exceeds its region, its memory is no longer mapped, its key is unknown, or "
             "prefetch_write was requested without local_write";
    case EPERM:
      return "a region is of another protection domain, or prefetch_write was requested without "
             "local_write";
    case ENOENT:
      return "the key of a slice is not the key of a region in this protection domain";
    case EINVAL:
      return "a region was not registered with access::on_demand, or the advice is unknown";
    case ENODEV:
    case EIO:
      return device_gone;
    default:
      return {};
  }
}

std::string explain_allocation(int code, std::size_t bytes, bool huge_pages) {
  if (code != ENOMEM) return {};
  if (huge_pages)
    return fmt::format(
        "the host has no huge pages for {}: raise /proc/sys/vm/nr_hugepages, or allocate with "
        "huge_pages::preferred",
        byte_text(bytes));
  return fmt::format(
      "the host does not have {} of free memory: the limit of the control group or of `ulimit -v` "
      "may be reached",
      byte_text(bytes));
}

}  // namespace verbena::inline VERBENA_ABI::detail
