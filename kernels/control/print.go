package control

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/disk"
	"github.com/troupe-run/troupe/kernels/internal/printing"
	"github.com/troupe-run/troupe/kernels/internal/process"
)

func newAssert(c *kernels.Construction) (any, error) {
	summarize, err := c.Attrs().Int("summarize")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		cond := ctx.Input(0)
		if err := args.NeedScalar(cond, tensor.Bool, "In[0] should be a scalar: %v"); err != nil {
			return err
		}
		if tensor.Of[bool](cond)[0] {
			return nil
		}
		parts := make([]string, ctx.NumInputs()-1)
		for i := range parts {
			parts[i] = "[" + printing.Summary(ctx.Input(i+1), int(summarize)) + "]"
		}
		return status.New(status.InvalidArgument, "assertion failed: "+strings.Join(parts, " "))
	}), nil
}

// console serializes what kernels print, which keeps lines whole.
var console sync.Mutex

func newPrint(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	message, first, summarize := a.Str("message"), a.Int("first_n"), a.Int("summarize")
	if err := a.Err(); err != nil {
		return nil, err
	}
	var calls atomic.Int64
	return kernels.Func(func(ctx *kernels.Context) error {
		if first < 0 || calls.Add(1) <= first {
			var line strings.Builder
			line.WriteString(message)
			for i := 1; i < ctx.NumInputs(); i++ {
				line.WriteString("[" + printing.Summary(ctx.Input(i), int(summarize)) + "]")
			}
			line.WriteByte('\n')
			if err := print(process.Stderr(), line.String()); err != nil {
				return err
			}
		}
		ctx.Pass(0, 0)
		return nil
	}), nil
}

func print(w io.Writer, text string) error {
	console.Lock()
	defer console.Unlock()
	if _, err := io.WriteString(w, text); err != nil {
		return status.Errorf(status.Internal, "Cannot print: %v", err)
	}
	return nil
}

// newPrintV2 returns the kernel of tf.print. It writes to the process's own streams, the server's log or a file.
func newPrintV2(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	stream, end := a.Str("output_stream"), a.Str("end")
	if err := a.Err(); err != nil {
		return nil, err
	}
	var write func(ctx *kernels.Context, s string) error
	log := func(level slog.Level) func(*kernels.Context, string) error {
		return func(ctx *kernels.Context, s string) error {
			if ctx.Step.Log != nil {
				ctx.Step.Log.Log(context.Background(), level, strings.TrimSuffix(s, "\n"), "node", c.Node.Name)
			}
			return nil
		}
	}
	switch stream {
	case "stdout":
		write = func(_ *kernels.Context, s string) error { return print(process.Stdout(), s) }
	case "stderr":
		write = func(_ *kernels.Context, s string) error { return print(process.Stderr(), s) }
	case "log(info)":
		write = log(slog.LevelInfo)
	case "log(warning)":
		write = log(slog.LevelWarn)
	case "log(error)":
		write = log(slog.LevelError)
	default:
		path, ok := strings.CutPrefix(stream, "file://")
		if !ok {
			return nil, status.InvalidArgumentf("Unknown output stream: %s, Valid streams are: stdout stderr log(info) log(warning) log(error)", stream)
		}
		write = func(ctx *kernels.Context, s string) error { return files.Append(disk.Files(ctx), path, s) }
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if err := args.NeedScalar(ctx.Input(0), tensor.String, "Input is expected to be scalar, but got %v"); err != nil {
			return err
		}
		return write(ctx, ctx.Input(0).Strings()[0]+end)
	}), nil
}
