/* A record: what the optimizer keeps of one bucket on one rank, as one run of bytes.
 *
 *   [ master weights  part_n fp32 | array 0  part_n fp32 | array 1  part_n fp32 ... ]
 *   [ master weights  part_n fp32 | the arrays of each parameter in turn            ]   layout.by_tensor
 *
 * Behind the master each array starts at a multiple of 64 bytes. By tensor, ranks do not need the same: the record has room
 * for the one that needs most.
 *
 * It is used only between the end of a backward pass and the next forward pass, and then as a whole, so it may be
 * somewhere else the rest of the time; that is what makes it one run. fw_shard_owned makes the record of its unit's bucket
 * present, fw_shard_share of the bucket's last unit ends its use; saving and loading do the same with open and close.
 * Nothing else may hold a pointer into it.
 *
 * Only with t = FW_BF16 is the master in the record. With FW_F32 the master is what the run computes with (in place, or
 * the share that is gathered): it lies in the weights, and the record holds the arrays alone. */
#ifndef FW_SHARD_SHARD_RECORD_H
#define FW_SHARD_SHARD_RECORD_H

#include "shard/shard.h"

/* What will be done with an open record. */
typedef enum fw_shard_record_use {
    FW_RECORD_READ,  /* nothing is written */
    FW_RECORD_UPDATE /* read and written */
} fw_shard_record_use;

/* Where the records of all buckets lie among a rank's, and their size: fills l->record, l->record_bytes and
 * l->record_most_bytes. The buckets are made. */
void fw_shard_record_lay_out(fw_shard_layout *l);

/* From the start of a record to its master (FW_RECORD_MASTER) or one of its dense arrays. */
enum { FW_RECORD_MASTER = -1 };
size_t fw_shard_record_at(const fw_shard_layout *l, int32_t bucket, int array);
/* By tensor: from the start of a record to the arrays of each parameter of the bucket, for a rank of the shard group; at
 * [param_n] may be NULL. Returns where the last one ends. */
size_t fw_shard_record_tensors(const fw_shard_layout *l, int32_t bucket, int group_rank, size_t *at);
/* Bytes of one array: of these elements of the parameter. */
size_t fw_shard_record_array_bytes(const fw_state_array *array, const fw_param *param, fw_state_range elements);
/* What a rank of the shard group owns of a parameter. */
fw_state_range fw_shard_record_elements(const fw_shard_layout *l, int group_rank, const fw_param *param);

/* The record of a bucket, present until close. It may be opened again while it is open, for as much use or less. */
fw_status fw_shard_record_open(fw_shard *s, int32_t bucket, fw_shard_record_use use, char **out);
fw_status fw_shard_record_close(fw_shard *s, int32_t bucket);

#endif
