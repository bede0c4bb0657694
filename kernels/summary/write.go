package summary

import (
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	summarypb "github.com/galeone/tensorflow/tensorflow/go/core/framework/summary_go_proto"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/disk"
	"github.com/troupe-run/troupe/kernels/internal/events"
	"google.golang.org/protobuf/proto"
)

// kindSummaryWriter is the kind of resources that write event files.
const kindSummaryWriter = "SummaryWriter"

// newSummaryWriter returns the kernel that outputs a writer's handle. CreateSummaryFileWriter creates the writer itself.
func newSummaryWriter(c *kernels.Construction) (any, error) {
	container, name, err := kernels.Named(c)
	if err != nil {
		return nil, err
	}
	if container == "" {
		container = c.Device.Resources().DefaultContainer()
	}
	return &kernels.Constant{Value: tensor.FromHandle(tensor.Handle{Device: c.Device.Name(), Container: container, Name: name, Type: kindSummaryWriter})}, nil
}

// createSummaryFileWriter creates the writer that the handle names, unless it exists.
func createSummaryFileWriter(ctx *kernels.Context) error {
	h, err := ctx.Handle(0)
	if err != nil {
		return err
	}
	dir, err := args.ScalarString(ctx, 1, "logdir must be a scalar")
	if err != nil {
		return err
	}
	queue, err := args.ScalarNumber(ctx, 2, tensor.Int32, "max_queue must be a scalar")
	if err != nil {
		return err
	}
	millis, err := args.ScalarNumber(ctx, 3, tensor.Int32, "flush_millis must be a scalar")
	if err != nil {
		return err
	}
	suffix, err := args.ScalarString(ctx, 4, "filename_suffix must be a scalar")
	if err != nil {
		return err
	}
	if dir, err = files.Local(dir); err != nil {
		return err
	}
	resources := ctx.Device.Resources()
	r, err := resources.LookupOrCreate(h.Container, kindSummaryWriter, h.Name, func() (containers.Resource, error) {
		return events.New(events.Options{Files: ctx.Files(), Dir: dir, Suffix: suffix, MaxQueue: int(queue), FlushInterval: time.Duration(millis) * time.Millisecond,
			Made: view.Act{By: ctx.Step.Origin, At: time.Now()}}), nil
	})
	if err != nil {
		return err
	}
	w, ok := r.(*events.Writer)
	if !ok {
		return kernels.WrongResource(h.Container, h.Name, r, w)
	}
	if err := w.Check(ctx.Files()); err != nil {
		return err
	}
	if o := w.Options(); o.Dir != dir && ctx.Step.Log != nil {
		// As in TensorFlow, the second caller writes where the first one does.
		ctx.Step.Log.Warn("a summary writer writes to another folder than was asked for", "node", ctx.Node.Name, "asked", dir, "folder", o.Dir, "made", o.Made.When(time.Now()))
	}
	if err := w.Open(); err != nil {
		// Another step may have deleted it in the meantime. Return why it could not be opened.
		_ = resources.Delete(h.Container, kindSummaryWriter, h.Name)
		return err
	}
	return nil
}

func createSummaryDBWriter(*kernels.Construction) (any, error) {
	return nil, status.Unimplementedf("CreateSummaryDbWriter is not supported: summaries are written to event files, with CreateSummaryFileWriter")
}

// summaryWriter returns the writer that the handle at input 0 names, and an error if the session may not write to it.
func summaryWriter(ctx *kernels.Context) (*events.Writer, error) {
	w, err := kernels.ResourceAt[*events.Writer](ctx, 0, kindSummaryWriter)
	if err != nil {
		return nil, err
	}
	return w, w.Check(ctx.Files())
}

func flushSummaryWriter(ctx *kernels.Context) error {
	w, err := summaryWriter(ctx)
	if err != nil {
		return err
	}
	return w.Flush()
}

// closeSummaryWriter deletes the writer, and ends when its file is complete. It is not a file operation itself, but the end of the writer
// is one, and may have to wait for its turn.
func closeSummaryWriter(ctx *kernels.Context, done func(error)) {
	w, err := summaryWriter(ctx)
	if err != nil {
		done(err)
		return
	}
	h, err := ctx.Handle(0)
	if err == nil {
		err = ctx.Device.Resources().Delete(h.Container, kindSummaryWriter, h.Name)
	}
	if err != nil {
		done(err)
		return
	}
	contain.Go(ctx.Step.Log, "The end of a summary writer", func() { // ends with the writer
		<-w.Done()
		done(w.Err())
	}, nil)
}

// writeSummary returns the kernel of an op that writes a summary of its inputs at the step in input 1. values returns the summary's values.
func writeSummary(values func(ctx *kernels.Context) ([]*summarypb.Summary_Value, error)) kernels.AsyncFunc {
	return disk.Async(func(ctx *kernels.Context) error {
		w, err := summaryWriter(ctx)
		if err != nil {
			return err
		}
		step, err := stepAt(ctx)
		if err != nil {
			return err
		}
		v, err := values(ctx)
		if err != nil {
			return err
		}
		b, err := proto.Marshal(&summarypb.Summary{Value: v})
		if err != nil {
			return status.InvalidArgumentf("The summary of %s cannot be written: %v", ctx.Node.Name, err)
		}
		return w.Write(events.Summary(time.Now(), step, b))
	})
}

func stepAt(ctx *kernels.Context) (int64, error) {
	return args.ScalarNumber(ctx, 1, tensor.Int64, "step must be scalar, got shape "+ctx.Input(1).Shape().String())
}

func tagAt(ctx *kernels.Context, i int) (string, error) {
	return args.ScalarString(ctx, i, "tag must be scalar")
}

func writeTensor(ctx *kernels.Context) ([]*summarypb.Summary_Value, error) {
	tag, err := tagAt(ctx, 3)
	if err != nil {
		return nil, err
	}
	serialized, err := args.ScalarString(ctx, 4, "summary_metadata must be scalar")
	if err != nil {
		return nil, err
	}
	v, err := tensorValue(ctx, ctx.Input(2))
	if err != nil {
		return nil, err
	}
	v.Tag = tag
	if serialized != "" {
		v.Metadata = metadata(serialized)
	}
	return []*summarypb.Summary_Value{v}, nil
}

func writeScalar(ctx *kernels.Context) ([]*summarypb.Summary_Value, error) {
	tag, err := tagAt(ctx, 2)
	if err != nil {
		return nil, err
	}
	t := ctx.Input(3)
	if t.Len() == 0 {
		return nil, status.InvalidArgumentf("value must be a scalar, got shape %v", t.Shape())
	}
	var v [1]float32
	if !realParts32.read(v[:], t, 0) {
		return nil, unsupportedSummary(t.DType())
	}
	return []*summarypb.Summary_Value{scalarValue(tag, v[0])}, nil
}

func writeHistogram(ctx *kernels.Context) ([]*summarypb.Summary_Value, error) {
	tag, err := tagAt(ctx, 2)
	if err != nil {
		return nil, err
	}
	v, err := histogramValue(ctx, tag, ctx.Input(3), "Nan in summary histogram for: "+tag, "Infinity in summary histogram for: "+tag)
	if err != nil {
		return nil, err
	}
	return []*summarypb.Summary_Value{v}, nil
}

func newWriteImage(c *kernels.Construction) (any, error) {
	limit, err := maxImages(c)
	if err != nil {
		return nil, err
	}
	return writeSummary(func(ctx *kernels.Context) ([]*summarypb.Summary_Value, error) {
		tag, err := tagAt(ctx, 2)
		if err != nil {
			return nil, err
		}
		bad := ctx.Input(4)
		if err := args.CheckType(ctx, 4, tensor.Uint8); err != nil {
			return nil, err
		}
		if err := badColorVector(bad); err != nil {
			return nil, err
		}
		return imageValues(tag, ctx.Input(3), tensor.Of[uint8](bad), limit)
	}), nil
}

func newWriteAudio(c *kernels.Construction) (any, error) {
	limit, err := maxOutputs(c)
	if err != nil {
		return nil, err
	}
	return writeSummary(func(ctx *kernels.Context) ([]*summarypb.Summary_Value, error) {
		tag, err := tagAt(ctx, 2)
		if err != nil {
			return nil, err
		}
		rate := ctx.Input(4)
		if err := args.NeedScalar(rate, tensor.Float32, "sample_rate must be a scalar, got shape %v"); err != nil {
			return nil, err
		}
		return audioValues(tag, ctx.Input(3), tensor.Of[float32](rate)[0], limit)
	}), nil
}

// writeRawSummary writes serialized summaries, all as one event.
func writeRawSummary(ctx *kernels.Context) error {
	w, err := summaryWriter(ctx)
	if err != nil {
		return err
	}
	step, err := stepAt(ctx)
	if err != nil {
		return err
	}
	if err := args.CheckType(ctx, 2, tensor.String); err != nil {
		return err
	}
	var all []byte // concatenating serialized messages merges them
	for i, s := range ctx.Input(2).Strings() {
		if tensor.Unmarshal([]byte(s), &summarypb.Summary{}) != nil {
			return status.Errorf(status.DataLoss, "Bad tf.compat.v1.Summary binary proto tensor string at index %d", i)
		}
		all = append(all, s...)
	}
	return w.Write(events.Summary(time.Now(), step, all))
}

func writeGraph(ctx *kernels.Context) error {
	w, err := summaryWriter(ctx)
	if err != nil {
		return err
	}
	step, err := stepAt(ctx)
	if err != nil {
		return err
	}
	graph, err := args.ScalarString(ctx, 2, "tensor must be a scalar string")
	if err != nil {
		return err
	}
	if tensor.Unmarshal([]byte(graph), &graphpb.GraphDef{}) != nil {
		return status.Errorf(status.DataLoss, "Bad tf.GraphDef binary proto tensor string")
	}
	return w.Write(events.Graph(time.Now(), step, []byte(graph)))
}

func importEvent(ctx *kernels.Context) error {
	w, err := summaryWriter(ctx)
	if err != nil {
		return err
	}
	event, err := args.ScalarString(ctx, 1, "event must be a scalar string")
	if err != nil {
		return err
	}
	if !events.Valid([]byte(event)) {
		return status.Errorf(status.DataLoss, "Bad tf.Event binary proto tensor string")
	}
	return w.Write([]byte(event))
}
