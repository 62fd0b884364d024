// SPDX-License-Identifier: MIT
#include "src/verbs/diagnosis.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "src/verbs/text.hpp"
#include "verbena/verbs/detail/call.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

const char* const device_gone = "the device was removed or has failed";
const char* const listing_forbidden =
    "this process has no permission to list RDMA devices: a control group, a seccomp filter or a "
    "security "
    "module forbids it; a container needs /dev/infiniband passed in";
const char* const opening_forbidden =
    "this user has no permission to open the device: check the mode of /dev/infiniband/uverbs*, "
    "the groups of "
    "the user and, in a container, whether it has the devices";

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : byte_text(limit);
}

// Queries the attributes of the device; returns false if that fails.
bool ask(asked_device device, ibv_device_attr& attributes) {
  return !call(device.from->verbs.query_device, device.context, &attributes).failed;
}

std::string explain_memory_limit(asked_device device, registration wanted) {
  std::string text;
  rlimit limit{};
  const bool pins = device.from->origin != provider_origin::soft;
  if (pins && ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
    text = "the limit of locked memory is " + limit_text(limit.rlim_cur) + " (hard limit " +
           limit_text(limit.rlim_max) + "), this region needs " + byte_text(wanted.bytes);
    if (limit.rlim_cur != RLIM_INFINITY)
      text +=
          ": raise it with `ulimit -l unlimited`, memlock in /etc/security/limits.conf or "
          "LimitMEMLOCK= of the service";
    text += "; ";
  }
  ibv_device_attr attributes{};
  if (!ask(device, attributes)) return text;
  const std::string most = attributes.max_mr_size == ~std::uint64_t{0}
                               ? "any size"
                               : "at most " + byte_text(attributes.max_mr_size);
  text += (text.empty() ? "the device has room for " : "or the device is full: it has room for ") +
          std::to_string(attributes.max_mr) + " regions of " + most;
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
    return "the memory is not mapped: it was freed before, or the length is wrong";
  return "the memory is mapped read-only and the access flags " + to_string(wanted.access) +
         " include writing, or a part of it is not mapped";
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

std::string explain_missing_hardware() {
  std::error_code failed;
  std::string names;
  // A range-for would throw exceptions: it increments without an error_code.
  std::filesystem::directory_iterator entry("/sys/class/infiniband", failed);
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed))
    names += (names.empty() ? "" : ", ") + entry->path().filename().string();
  if (names.empty()) return {};
  return "the kernel has " + names +
         ", but libibverbs found no driver for it: install the providers (`apt install "
         "ibverbs-providers`, `dnf install libibverbs`, `pacman -S rdma-core`); "
         "IBV_SHOW_WARNINGS=1 says more";
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
             "has no access to it";
    case EMFILE:
    case ENFILE:
      return "no file descriptor is free: raise the limit with `ulimit -n`";
    case ENOMEM:
      return "the host has too little memory, or the rdma cgroup's limit of hca_handle is reached";
    default:
      return {};
  }
}

std::string explain_port(int code, asked_device device, port_number port) {
  if (code == ENODEV || code == EIO) return device_gone;
  ibv_device_attr attributes{};
  if (!ask(device, attributes)) return {};
  const unsigned ports = attributes.phys_port_cnt;
  if (port.value() >= 1 && port.value() <= ports) return {};
  return "there is no port " + std::to_string(port.value()) + ": the device has " +
         counted(ports, "port") + ", counted from 1";
}

std::string explain_pd(int code, asked_device device) {
  if (code == ENODEV || code == EIO) return device_gone;
  ibv_device_attr attributes{};
  if (code != ENOMEM || !ask(device, attributes)) return {};
  return "the device has room for " + std::to_string(attributes.max_pd) +
         " protection domains, and the rdma cgroup may allow fewer";
}

std::string explain_registration(int code, asked_device device, registration wanted) {
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
                 : "the device does not support the access flags " + to_string(access);
    case EINVAL: {
      if (wanted.offset_in_page_differs)
        return "the memory and its base_address have different offsets in a page";
      ibv_device_attr attributes{};
      if (ask(device, attributes) && wanted.bytes > attributes.max_mr_size)
        return "the region has " + byte_text(wanted.bytes) + ", the device allows " +
               byte_text(attributes.max_mr_size);
      return "the device refuses the access flags " + to_string(access) + " or the memory";
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

std::string explain_dmabuf(int code, asked_device device, registration wanted) {
  switch (code) {
    case EBADF:
      return "the descriptor is not open, or is not of a dma-buf";
    case EOPNOTSUPP:
    case ENOSYS:
      return "the device, its driver or the kernel (before 5.12) has no dma-buf";
    case EFAULT:
      return "the device cannot access the memory of the dma-buf";
    case EINVAL:
      if (!wanted.offset_in_page_differs)
        return "the range reaches beyond the dma-buf, the descriptor is of no dma-buf, or the "
               "device "
               "refuses the rights " +
               to_string(wanted.access);
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
      return "the device does not support advice, or not " + to_string(advice) +
             ": omit it, work requests fault pages in on access";
    case EFAULT:
      return "a slice reaches beyond its region, its memory is no longer mapped, its key is "
             "unknown, or it is to be written without local_write";
    case EPERM:
      return "a region is of another protection domain, or is to be written without local_write";
    case ENOENT:
      return "a key names no region of this protection domain";
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
    return "the host has no huge pages for " + byte_text(bytes) +
           ": raise /proc/sys/vm/nr_hugepages, or allocate with huge_pages::preferred";
  return "the host has no " + byte_text(bytes) +
         " of free memory: the limit of the cgroup or of `ulimit -v` may be reached";
}

}  // namespace verbena::inline VERBENA_ABI::detail
