// SPDX-License-Identifier: MIT
// The operations of group_operations.cpp with MPI, by mpirun. Arguments: `barrier`, or `all_reduce`
// and the bytes.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { batches = 21 };

static int by_value(const void* a, const void* b) {
  const double left = *(const double*)a;
  const double right = *(const double*)b;
  return (left > right) - (left < right);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 2) return 2;
  const int is_barrier = strcmp(argv[1], "barrier") == 0;
  const long bytes = argc > 2 ? strtol(argv[2], NULL, 10) : 8;
  float* const memory = calloc((size_t)bytes, 1);
  if (memory == NULL) return 1;
  const int batch = is_barrier ? 100 : bytes <= 65536 ? 50 : 5;
  double all[batches];
  for (int each = -1; each < batches; ++each) {  // the first batch is not counted
    const double began = MPI_Wtime();
    for (int i = 0; i < batch; ++i) {
      if (is_barrier)
        MPI_Barrier(MPI_COMM_WORLD);
      else
        MPI_Allreduce(MPI_IN_PLACE, memory, (int)(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    if (each >= 0) all[each] = (MPI_Wtime() - began) * 1e9 / batch;
  }
  qsort(all, batches, sizeof all[0], by_value);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("%.0f\n", all[batches / 2]);
  free(memory);
  MPI_Finalize();
  return 0;
}
