/* SPDX-License-Identifier: MIT */
/* libcublas: a stand-in for cuBLAS, as far as examples/ uses it: products in plain loops, in the order of a stream. */
#include "t/tools/cuda/cublas_v2.h"
#include "t/tools/libcudart.h"

#include <stdlib.h>

struct cublasContext {
    cudaStream_t stream;
};

/* c = alpha a b + beta c, column by column; a and b have a stride along rows and one along columns. */
typedef struct product {
    const float *a, *b;
    float *c, alpha, beta;
    size_t m, n, k, a_row, a_column, b_row, b_column, ldc;
    size_t a_count, b_count, c_count; /* elements from the first to the last, inclusive */
} product;

const char *
cublasGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "the operation completed successfully" : "a stand-in's error";
}

cublasStatus_t
cublasCreate(cublasHandle_t *handle)
{
    *handle = calloc(1, sizeof(**handle));
    if (!*handle)
        return CUBLAS_STATUS_ALLOC_FAILED;
    hoop_fake_cudart_count(1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasDestroy(cublasHandle_t handle)
{
    hoop_fake_cudart_count(-1);
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

static void
run_product(void *closure)
{
    const product *p = closure;
    const float *a = hoop_fake_cudart_reach(p->a, p->a_count * sizeof(*a));
    const float *b = hoop_fake_cudart_reach(p->b, p->b_count * sizeof(*b));
    float *c = hoop_fake_cudart_reach(p->c, p->c_count * sizeof(*c));
    for (size_t column = 0; column < p->n; column++) {
        for (size_t row = 0; row < p->m; row++) {
            float sum = 0, *to = &c[row + column * p->ldc];
            for (size_t i = 0; i < p->k; i++)
                sum += a[row * p->a_row + i * p->a_column] * b[i * p->b_row + column * p->b_column];
            *to = p->alpha * sum + (p->beta == 0 ? 0 : p->beta * *to);
        }
    }
}

/* The elements of a stored matrix with that many rows and columns; 0 if the stride is too small for it. */
static size_t
extent(int rows, int columns, int stride)
{
    return rows > 0 && columns > 0 && stride >= rows ? (size_t)stride * (size_t)(columns - 1) + (size_t)rows : 0;
}

/* cuBLAS has many kernels and chooses by the size of the product: here each size has its own. */
static uintptr_t
chosen_kernel(const product *p, cublasOperation_t transa, cublasOperation_t transb)
{
    return 1 + (uintptr_t)transa + 2 * (uintptr_t)transb + 4 * ((p->m * 1000003 + p->n) * 1000003 + p->k);
}

cublasStatus_t
cublasSgemm(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
            const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc)
{
    product *p = malloc(sizeof(*p));
    if (!p)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *p = (product){.a = a,
                   .b = b,
                   .c = c,
                   .alpha = *alpha,
                   .beta = *beta,
                   .m = (size_t)m,
                   .n = (size_t)n,
                   .k = (size_t)k,
                   .a_row = transa == CUBLAS_OP_N ? 1 : (size_t)lda,
                   .a_column = transa == CUBLAS_OP_N ? (size_t)lda : 1,
                   .b_row = transb == CUBLAS_OP_N ? 1 : (size_t)ldb,
                   .b_column = transb == CUBLAS_OP_N ? (size_t)ldb : 1,
                   .ldc = (size_t)ldc,
                   .a_count = transa == CUBLAS_OP_N ? extent(m, k, lda) : extent(k, m, lda),
                   .b_count = transb == CUBLAS_OP_N ? extent(k, n, ldb) : extent(n, k, ldb),
                   .c_count = extent(m, n, ldc)};
    if (p->a_count == 0 || p->b_count == 0 || p->c_count == 0) {
        free(p);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    return hoop_fake_cudart_launch(handle->stream, chosen_kernel(p, transa, transb), 1, 1, run_product, p) ==
                   cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}
