package input

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
	"github.com/troupe-run/troupe/kernels/reader"
	"github.com/troupe-run/troupe/queues"
)

// kindReader is the kind of readers in containers. Readers of all ops share it, as in TensorFlow.
const kindReader = "Reader"

// newReader returns the kernel for a reader's handle; kind is the name of the op's readers in errors. A reader without shared_name belongs
// to the session.
func newReader(c *kernels.Construction, kind string, source func() reader.Source) (any, error) {
	node := c.Node.Name
	return kernels.NewSource(c, kindReader, kernels.NamedBySession, func(string) (*reader.Reader, error) {
		return reader.New(kind, node, source()), nil
	}, nil)
}

func newIdentityReader(c *kernels.Construction) (any, error) {
	return newReader(c, "IdentityReader", reader.Identity)
}

func newWholeFileReader(c *kernels.Construction) (any, error) {
	return newReader(c, "WholeFileReader", reader.WholeFile)
}

func newTextLineReader(c *kernels.Construction) (any, error) {
	skip, err := c.Attrs().Int("skip_header_lines")
	switch {
	case err != nil:
		return nil, err
	case skip < 0:
		return nil, status.InvalidArgumentf("skip_header_lines must be >= 0 not %d", skip)
	}
	return newReader(c, "TextLineReader", func() reader.Source { return reader.TextLines(skip) })
}

func newTFRecordReader(c *kernels.Construction) (any, error) {
	name, err := c.Attrs().Str("compression_type")
	if err != nil {
		return nil, err
	}
	compression, _ := tfrecord.ParseCompression(name)
	return newReader(c, "TFRecordReader", func() reader.Source { return reader.Records(compression) })
}

func newFixedLengthReader(c *kernels.Construction) (any, error) {
	a := inputAttrsOf(c)
	size := func(name string) int64 {
		n := a.int(name)
		a.need(n >= 0, "%s must be >= 0 not %d", name, n)
		return int64(n)
	}
	layout := reader.FixedLength{Header: size("header_bytes"), Record: size("record_bytes"), Footer: size("footer_bytes"), Hop: size("hop_bytes")}
	if a.Err() != nil {
		return nil, a.Err()
	}
	// The older op has no such attribute. Any value other than the two compressions means none.
	encoding, _ := c.Attrs().Str("encoding")
	layout.Compression, _ = tfrecord.ParseCompression(encoding)
	return newReader(c, "FixedLengthRecordReader", func() reader.Source { return reader.NewFixedLength(layout) })
}

func newLMDBReader(*kernels.Construction) (any, error) {
	return nil, status.Unimplementedf("LMDB support is removed from TensorFlow. This API will be deleted in the next TensorFlow release. If you need LMDB support, please file a GitHub issue.")
}

// readerAt returns the reader that the handle at input 0 names.
func readerAt(ctx *kernels.Context) (*reader.Reader, error) {
	return kernels.ResourceAt[*reader.Reader](ctx, 0, kindReader)
}

// onReader returns the kernel of an operation on a reader, which may wait for its turn or for a unit of work.
func onReader(start func(ctx *kernels.Context, r *reader.Reader, end func(error)) (cancel func(error))) func(*kernels.Construction) (any, error) {
	return func(*kernels.Construction) (any, error) {
		return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
			r, err := readerAt(ctx)
			if err != nil {
				done(err)
				return
			}
			kernels.Wait(ctx, awaitedOf(ctx, r), done, func(end func(error)) func(error) { return start(ctx, r, end) })
		}), nil
	}
}

// awaitedOf describes what an operation on a reader waits for: its turn, and work from a queue, if it uses one.
func awaitedOf(ctx *kernels.Context, r *reader.Reader) kernels.Awaited {
	on := kernels.Awaited{Resource: r, Verb: readerVerbs[ctx.Node.Op]}
	if u, ok := kernels.UseOf(ctx.Node.Op); ok && u.Input < ctx.NumInputs() {
		if q, err := kernels.ResourceAt[*queues.Queue](ctx, u.Input, kernels.KindQueue); err == nil { // otherwise the operation reports the error
			on.Source = q
		}
	}
	return on
}

// readerVerbs describe what operations do with a reader.
var readerVerbs = map[string]string{
	"ReaderRead": "read from", "ReaderReadV2": "read from", "ReaderReadUpTo": "read from", "ReaderReadUpToV2": "read from",
	"ReaderReset": "reset", "ReaderResetV2": "reset",
	"ReaderSerializeState": "save the state of", "ReaderSerializeStateV2": "save the state of",
	"ReaderRestoreState": "restore the state of", "ReaderRestoreStateV2": "restore the state of",
}

// workOf takes units of work from a queue, for a step.
func workOf(ctx *kernels.Context, q *queues.Queue) reader.Work {
	user := q.For(ctx.Step.Origin, ctx.Step.Cancellation, ctx.Changes()).Noting(ctx.Step.Notes)
	return func(done func(string, error)) (cancel func(error)) {
		return user.Dequeue(func(tuple []*tensor.Tensor, err error) {
			defer kernels.ReleaseTensors(tuple)
			name := ""
			switch {
			case err != nil:
			case len(tuple) != 1:
				err = status.InvalidArgumentf("Expected single component queue")
			case tuple[0].DType() != tensor.String:
				err = status.InvalidArgumentf("Expected queue with single string component")
			case tuple[0].Len() != 1:
				err = status.InvalidArgumentf("Expected to dequeue a one-element string tensor")
			default:
				name = tuple[0].Strings()[0]
			}
			done(name, err)
		})
	}
}

func noCancel(error) {}

func readerRead(ctx *kernels.Context, r *reader.Reader, end func(error)) (cancel func(error)) {
	q, err := kernels.ResourceAt[*queues.Queue](ctx, 1, kernels.KindQueue)
	if err != nil {
		end(err)
		return noCancel
	}
	return r.Read(ctx.Step.Cancellation, ctx.Step.Origin, ctx.Files(), workOf(ctx, q), func(record reader.Record, err error) {
		if err == nil {
			err = args.FirstError(outputStringAt(ctx, 0, record.Key), outputStringAt(ctx, 1, record.Value))
		}
		end(err)
	})
}

func outputStringAt(ctx *kernels.Context, o int, s string) error {
	out, err := ctx.Allocate(o, tensor.String, nil)
	if err == nil {
		out.Strings()[0] = s
	}
	return err
}

func readerReadUpTo(ctx *kernels.Context, r *reader.Reader, end func(error)) (cancel func(error)) {
	q, err := kernels.ResourceAt[*queues.Queue](ctx, 1, kernels.KindQueue)
	if err == nil {
		err = args.NeedScalar(ctx.Input(2), tensor.Int64, "num_records must be a scalar, got shape: %v")
	}
	if err != nil {
		end(err)
		return noCancel
	}
	return r.ReadUpTo(ctx.Step.Cancellation, ctx.Step.Origin, ctx.Files(), workOf(ctx, q), tensor.Of[int64](ctx.Input(2))[0], func(records []reader.Record, err error) {
		if err == nil {
			err = outputRecords(ctx, records)
		}
		end(err)
	})
}

func outputRecords(ctx *kernels.Context, records []reader.Record) error {
	shape := tensor.Shape{int64(len(records))}
	keys, err := ctx.Allocate(0, tensor.String, shape)
	if err != nil {
		return err
	}
	values, err := ctx.Allocate(1, tensor.String, shape)
	if err != nil {
		return err
	}
	for i, r := range records {
		keys.Strings()[i], values.Strings()[i] = r.Key, r.Value
	}
	return nil
}

// readerCount returns the kernel for one of the reader's counts. It does not wait for a read in progress.
func readerCount(count func(*reader.Reader) int64) kernels.Func {
	return func(ctx *kernels.Context) error {
		r, err := readerAt(ctx)
		if err == nil {
			ctx.SetOutput(0, tensor.Scalar(tensor.Int64, count(r)))
		}
		return err
	}
}

func readerSerializeState(ctx *kernels.Context, r *reader.Reader, end func(error)) (cancel func(error)) {
	return r.SerializeState(ctx.Step.Cancellation, ctx.Step.Origin, func(state string, err error) {
		if err == nil {
			err = args.OutputString(ctx, state)
		}
		end(err)
	})
}

func readerRestoreState(ctx *kernels.Context, r *reader.Reader, end func(error)) (cancel func(error)) {
	if err := args.NeedScalar(ctx.Input(1), tensor.String, "Reader state must be scalar, but had shape: %v"); err != nil {
		end(err)
		return noCancel
	}
	return r.RestoreState(ctx.Step.Cancellation, ctx.Step.Origin, ctx.Input(1).Strings()[0], end)
}

func readerReset(ctx *kernels.Context, r *reader.Reader, end func(error)) (cancel func(error)) {
	return r.Reset(ctx.Step.Cancellation, ctx.Step.Origin, end)
}
