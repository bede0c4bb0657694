package wav

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
)

// Audio is the content of a WAV file: signed 16-bit samples, interleaved by channel.
type Audio struct {
	// Rate is in frames per second.
	Rate             uint32
	Channels, Frames int
	samples          string
}

// Sample returns a sample scaled to between -1 and 1.
func (a *Audio) Sample(frame, channel int) float32 {
	at := sampleSize * (frame*a.Channels + channel)
	return float32(int16(uint16(a.samples[at])|uint16(a.samples[at+1])<<8)) / (1 << 15)
}

// reader reads fields one after the other. After an error, all fields are zero.
type reader struct {
	data string
	at   int
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = status.InvalidArgumentf(format, args...)
	}
}

// take returns the next n bytes.
func (r *reader) take(n int) string {
	if r.err == nil && n > len(r.data)-r.at {
		r.fail("Data too short when trying to read string")
	}
	if r.err != nil {
		return "\x00\x00\x00\x00"[:min(n, 4)]
	}
	r.at += n
	return r.data[r.at-n : r.at]
}

func (r *reader) u16() uint16 { return binary.LittleEndian.Uint16([]byte(r.take(2))) }
func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32([]byte(r.take(4))) }

func (r *reader) expect(text string) {
	if found := r.take(len(text)); found != text {
		r.fail("Header mismatch: Expected %s but found %s", text, found)
	}
}

// skipped are the chunks that may precede the format.
var skipped = []string{"JUNK", "bext", "iXML", "qlty", "mext", "levl", "link", "axml"}

// Decode reads a WAV file of 16-bit PCM. Anything else fails with INVALID_ARGUMENT. The audio refers to data.
func Decode(data string) (*Audio, error) {
	r := &reader{data: data}
	r.expect("RIFF")
	r.u32() // the size of the file
	r.expect("WAVE")
	for name := r.take(4); name != "fmt " && r.err == nil; name = r.take(4) {
		if !slices.Contains(skipped, name) {
			r.fail("Unexpected field %s", name)
		}
		r.take(int(r.u32()))
	}
	a := &Audio{}
	frame := a.readFormat(r)
	found := false
	for r.err == nil && r.at < len(data) {
		name, size := r.take(4), r.u32()
		if size > math.MaxInt32 {
			r.fail("WAV data chunk '%s' is too large: %d bytes, but the limit is %d", name, size, math.MaxInt32)
		}
		if r.err != nil {
			break
		}
		if name != "data" {
			r.at += int(size)
			continue
		}
		if found {
			r.fail("More than one data chunk found in WAV")
			break
		}
		found = true
		a.Frames = int(size) / frame
		a.samples = r.take(a.Frames * frame)
	}
	if !found {
		r.fail("No data chunk found in WAV")
	}
	return a, r.err
}

// readFormat reads the format and returns the number of bytes per frame.
func (a *Audio) readFormat(r *reader) (frame int) {
	size := r.u32()
	if size != 16 && size != 18 {
		r.fail("Bad format chunk size for WAV: Expected 16 or 18, but got%d", size)
	}
	if format := r.u16(); format != 1 {
		r.fail("Bad audio format for WAV: Expected 1 (PCM), but got%d", format)
	}
	a.Channels = int(r.u16())
	if a.Channels < 1 {
		r.fail("Bad number of channels for WAV: Expected at least 1, but got %d", a.Channels)
	}
	a.Rate = r.u32()
	perSecond := r.u32()
	frame = int(r.u16())
	if bits := r.u16(); bits != 8*sampleSize {
		r.fail("Can only read 16-bit WAV files, but received %d", bits)
	}
	if want := sampleSize * a.Channels; frame != want {
		r.fail("Bad bytes per sample in WAV header: Expected %d but got %d", want, frame)
	}
	if want := uint64(frame) * uint64(a.Rate); uint64(perSecond) != want {
		r.fail("Bad bytes per second in WAV header: Expected %d but got %d (sample_rate=%d, bytes_per_sample=%d)", want, perSecond, a.Rate, frame)
	}
	if size == 18 {
		r.at += 2
	}
	return frame
}
