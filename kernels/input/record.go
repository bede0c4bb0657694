package input

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
	"github.com/troupe-run/troupe/kernels/reader"
)

// recordInput is the kernel of RecordInput. It has its own reader.
type recordInput struct {
	yielder *reader.Yielder
	batch   int
}

// maxRecordBatch bounds the records of one step.
const maxRecordBatch = 1 << 26

func newRecordInput(c *kernels.Construction) (any, error) {
	a := inputAttrsOf(c)
	patterns, shift, name := a.Str("file_pattern"), a.Float("file_shuffle_shift_ratio"), a.Str("compression_type")
	seed, buffer, parallelism, batch := a.int("file_random_seed"), a.int("file_buffer_size"), a.int("file_parallelism"), a.int("batch_size")
	a.need(parallelism >= 0, "file_parallelism should >= 0, got %d", parallelism)
	a.need(batch >= 0, "batch_size must be non-negative but got %d", batch)
	a.need(buffer >= 0, "file_buffer_size must be non-negative but got %d", buffer)
	if a.Err() == nil && batch > maxRecordBatch {
		a.Fail(status.Errorf(status.ResourceExhausted, "OOM when allocating a batch of %d records", batch))
	}
	if a.Err() != nil {
		return nil, a.Err()
	}
	compression, _ := tfrecord.ParseCompression(name)
	return &recordInput{batch: batch, yielder: reader.NewYielder(reader.YielderOptions{
		Patterns: patterns, Seed: int64(seed), Shift: shift, Buffer: buffer, Parallelism: max(parallelism, 1), Compression: compression,
	})}, nil
}

// ComputeAsync outputs the next batch of records.
func (k *recordInput) ComputeAsync(ctx *kernels.Context, done func(error)) {
	kernels.Wait(ctx, kernels.Awaited{Text: "records of its files"}, done, func(end func(error)) func(error) {
		return k.yielder.Yield(ctx.Step.Cancellation, ctx.Files(), k.batch, func(records []string, err error) {
			if err != nil {
				end(err)
				return
			}
			t, err := tensor.FromStrings(tensor.Shape{int64(len(records))}, records)
			if err == nil {
				ctx.SetOutput(0, t)
			}
			end(err)
		})
	})
}

// Close stops reading.
func (k *recordInput) Close() { k.yielder.Close() }
