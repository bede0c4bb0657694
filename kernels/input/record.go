package input

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
	"github.com/troupe-run/troupe/kernels/reader"
)

// recordInput is the kernel of RecordInput, which has a reader of its own.
type recordInput struct {
	yielder *reader.Yielder
	batch   int
}

// maxRecordBatch bounds the records of one step.
const maxRecordBatch = 1 << 26

func newRecordInput(c *kernels.Construction) (any, error) {
	a := inputAttrs{c: c}
	patterns, err1 := c.Attrs().Str("file_pattern")
	shift, err2 := c.Attrs().Float("file_shuffle_shift_ratio")
	name, err3 := c.Attrs().Str("compression_type")
	a.fail(args.FirstError(err1, err2, err3))
	seed, buffer, parallelism, batch := a.int("file_random_seed"), a.int("file_buffer_size"), a.int("file_parallelism"), a.int("batch_size")
	a.need(parallelism >= 0, "file_parallelism should >= 0, got %d", parallelism)
	a.need(batch >= 0, "batch_size must be non-negative but got %d", batch)
	a.need(buffer >= 0, "file_buffer_size must be non-negative but got %d", buffer)
	if a.err == nil && batch > maxRecordBatch {
		a.fail(status.Errorf(status.ResourceExhausted, "OOM when allocating a batch of %d records", batch))
	}
	if a.err != nil {
		return nil, a.err
	}
	compression, _ := tfrecord.ParseCompression(name)
	return &recordInput{batch: batch, yielder: reader.NewYielder(reader.YielderOptions{
		Patterns: patterns, Seed: int64(seed), Shift: shift, Buffer: buffer, Parallelism: max(parallelism, 1), Compression: compression,
	})}, nil
}

// ComputeAsync gives the next batch of records.
func (k *recordInput) ComputeAsync(ctx *kernels.Context, done func(error)) {
	kernels.Wait(ctx, kernels.Awaited{Text: "records of its files"}, done, func(end func(error)) func(error) {
		return k.yielder.Yield(ctx.Files(), k.batch, func(records []string, err error) {
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

// Close ends the reading.
func (k *recordInput) Close() { k.yielder.Close() }
