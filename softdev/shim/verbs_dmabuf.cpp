// SPDX-License-Identifier: MIT
// Memory regions of file descriptors: DMA buffers and, in addition, all files that can be mapped
// (memfd, regular file).
#include <infiniband/verbs.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "softdev/host/page_fault.hpp"
#include "softdev/shim/answers.hpp"
#include "softdev/shim/functions.hpp"
#include "softdev/shim/not_supported.hpp"
#include "softdev/shim/registration.hpp"

namespace verbena::softdev {
namespace {

constexpr unsigned writing_access =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

// The range of a mapping in a file, and the offset of the first requested byte in the mapping.
struct placement {
  std::uint64_t start = 0;
  std::size_t bytes = 0;
  std::size_t skip = 0;
};

// Returns 0 and the size of the file or DMA buffer, or an errno. EINVAL is the error of the kernel
// for a descriptor that is not a DMA buffer.
int size_of(int fd, std::uint64_t& size) noexcept {
  struct stat about{};
  if (fstat(fd, &about) != 0) return errno;
  off_t bytes = about.st_size;
  // The size of a DMA buffer, which is neither a file nor a device, is the result of lseek(2).
  if (bytes == 0 && (about.st_mode & S_IFMT) == 0) bytes = lseek(fd, 0, SEEK_END);
  if (bytes <= 0) return EINVAL;
  size = static_cast<std::uint64_t>(bytes);
  return 0;
}

int place(int fd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
          placement& out) noexcept {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  if (length == 0 || offset % page != iova % page) return EINVAL;
  std::uint64_t size = 0;
  if (const int refused = size_of(fd, size)) return refused;
  if (length > size || offset > size - length) return EINVAL;
  out.skip = static_cast<std::size_t>(offset % page);
  out.start = offset - out.skip;
  out.bytes = out.skip + length;
  return 0;
}

// Returns whether the end of the file can move into the mapping, where accesses then raise SIGBUS.
bool may_shrink(int fd) noexcept {
  struct stat about{};
  if (fstat(fd, &about) == 0 && (about.st_mode & S_IFMT) != S_IFREG) return false;
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals < 0 || (seals & F_SEAL_SHRINK) == 0;
}

}  // namespace
}  // namespace verbena::softdev

using namespace verbena::softdev;

extern "C" {

// As with the kernel, `addr` of the region is the offset. If the file may shrink, each access first
// checks the pages. An access beyond the end of the file fails like one outside the region.
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                          int fd, int access) {
  if (!working(object_of(pd->context))) return nullptr;
  const auto rights = static_cast<unsigned>(access);
  if (const int refused = check_access(*pd->context, rights)) return fail(refused);
  if ((rights & IBV_ACCESS_ON_DEMAND) != 0) return fail(refuse(refusals::paging_of_dmabuf_mr));
  placement where;
  if (const int refused = place(fd, offset, length, iova, where)) return fail(refused);
  const bool watched = may_shrink(fd);
  if (watched && !can_fault_in()) return fail(refuse(refusals::shrinking_dmabuf_mr));
  const int protection = (rights & writing_access) != 0 ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const mapped =
      mmap(nullptr, where.bytes, protection, MAP_SHARED, fd, static_cast<off_t>(where.start));
  if (mapped == MAP_FAILED) return fail(errno == ENODEV ? EINVAL : errno);
  mr_object* object = nullptr;
  try {
    object = make_region(
        pd, {.base = static_cast<std::byte*>(mapped) + where.skip,
             .length = length,
             .iova = iova,
             .rights = access_flags::from_mask(rights & ~unsigned{IBV_ACCESS_ZERO_BASED}),
             .domain = static_cast<domain_id>(pd->handle),
             .fault_in = watched ? &fault_in : nullptr});
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
  }
  if (object == nullptr) {
    const int code = errno;
    munmap(mapped, where.bytes);
    return fail(code);
  }
  object->mapped = mapped;
  object->mapped_bytes = where.bytes;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an offset
  object->addr = reinterpret_cast<void*>(offset);
  return object;
}

}  // extern "C"
