package save

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/disk"
)

// newVocabRemapping returns the kernel that finds the lines of one vocabulary file in another.
func newVocabRemapping(c *kernels.Construction) (any, error) {
	var attrs [3]int64
	for i, name := range []string{"new_vocab_offset", "num_new_vocab", "old_vocab_size"} {
		var err error
		if attrs[i], err = c.Attrs().Int(name); err != nil {
			return nil, err
		}
	}
	offset, n, oldSize := attrs[0], attrs[1], attrs[2]
	if offset < 0 || n < 0 || oldSize < -1 {
		return nil, status.InvalidArgumentf("new_vocab_offset %d and num_new_vocab %d must be >= 0, old_vocab_size %d >= -1", offset, n, oldSize)
	}
	return disk.Async(func(ctx *kernels.Context) error {
		for i, text := range []string{"new_vocab_file should be a single string, but got %v", "old_vocab_file should be a single string, but got %v"} {
			if err := args.NeedScalar(ctx.Input(i), tensor.String, text); err != nil {
				return err
			}
		}
		newFile, oldFile := ctx.Input(0).Strings()[0], ctx.Input(1).Strings()[0]
		if newFile == "" {
			return status.InvalidArgumentf("new vocab filename cannot be empty.")
		}
		fsys := disk.Files(ctx)
		var tokens []string
		lines := int64(0)
		err := eachLine(fsys, newFile, -1, func(line int64, token string) error {
			if lines = line + 1; line >= offset && line-offset < n {
				tokens = append(tokens, token)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if offset > lines || n > lines-offset {
			return status.InvalidArgumentf("lookup table size must be larger than last new vocab entry's line")
		}
		if oldFile == "" {
			return status.InvalidArgumentf("new vocab filename cannot be empty.")
		}
		old := map[string]int64{}
		err = eachLine(fsys, oldFile, oldSize, func(line int64, token string) error {
			if have, ok := old[token]; ok {
				return status.Errorf(status.FailedPrecondition, "HashTable has different value for same key. Key %s has %d and trying to add value %d", token, have, line)
			}
			old[token] = line
			return nil
		})
		if err != nil {
			return err
		}
		return outputRemapping(ctx, tokens, old)
	}), nil
}

func outputRemapping(ctx *kernels.Context, tokens []string, old map[string]int64) error {
	remapping, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{int64(len(tokens))})
	if err != nil {
		return err
	}
	present := int32(0)
	for i, token := range tokens {
		line, ok := old[token]
		if !ok {
			line = -1
		} else {
			present++
		}
		tensor.Of[int64](remapping)[i] = line
	}
	ctx.SetOutput(1, tensor.Scalar(tensor.Int32, present))
	return nil
}

// eachLine calls f for each of the first size lines of a file, or for all lines if size is -1. It returns an error if the file has fewer
// lines, if there are no lines to read, or if one is empty.
func eachLine(fsys files.FS, name string, size int64, f func(line int64, text string) error) error {
	file, err := files.Open(fsys, name)
	if err != nil {
		return err
	}
	defer file.Close()
	r := bufio.NewReader(file)
	at := 0
	for line := int64(0); ; line++ {
		read, err := files.ReadLine(r, name)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		text := string(read)
		at += len(text)
		switch {
		case err != nil && text == "" && size >= 0 && line != size:
			return status.InvalidArgumentf("Invalid vocab_size in %s: expected %d but got %d", name, size, line)
		case err != nil && text == "" && line == 0:
			return status.Errorf(status.OutOfRange, "eof")
		case err != nil && text == "":
			return nil
		case size >= 0 && line >= size:
			if line == 0 {
				return status.Errorf(status.OutOfRange, "Finished reading %d of lines from %s", size, name)
			}
			return nil
		}
		text = strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\r", "")
		if text == "" {
			return status.InvalidArgumentf("Invalid content in %s: empty line found at position %d.", name, at)
		}
		if err := f(line, text); err != nil {
			return err
		}
	}
}
