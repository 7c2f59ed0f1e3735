/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_GPU_REPORT_MADE_H
#define BPFPROF_TESTS_GPU_REPORT_MADE_H

/* A report of one busy and one idle process, as a table and as JSON. */

#include "gpu/report.h"

#define GEMM                                                                                       \
	"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_64x3_tn_"     \
	"align8>(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_64x3_tn_align8::Params)"

extern const struct gpu_report_process busy;
extern const struct gpu_report_process idle;
struct gpu_report gpu_report_made(const struct gpu_report_process *processes, size_t nr);
char *gpu_report_table(const struct gpu_report *report, const struct gpu_report_options *options);
char *gpu_report_json(const struct gpu_report *report);
void expect_part(const char *text, const char *part);
void expect_columns(const char *text, size_t columns);

#endif
