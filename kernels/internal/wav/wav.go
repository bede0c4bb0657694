// Package wav writes and reads WAV files.
package wav

import (
	"encoding/binary"
	"math"

	"github.com/troupe-run/troupe/graph/status"
)

const (
	header     = 44
	sampleSize = 2
)

// Encode returns a WAV file of signed 16-bit samples. Each frame has one sample per channel. Samples beyond -1 and 1 are clipped, and a NaN
// becomes silence. rate is in frames per second. Values that the format cannot hold fail with INVALID_ARGUMENT.
func Encode(samples []float32, rate float64, channels, frames int64) ([]byte, error) {
	hertz := max(1, math.RoundToEven(rate))
	switch {
	case len(samples) == 0 && frames > 0:
		return nil, status.InvalidArgumentf("audio is null")
	case !(hertz <= math.MaxUint32):
		return nil, status.InvalidArgumentf("sample_rate must be in (0, 2^32), got: %.0f", hertz)
	case channels <= 0 || channels > math.MaxUint16:
		return nil, status.InvalidArgumentf("num_channels must be in (0, 2^16), got: %d", channels)
	case len(samples) > (math.MaxUint32-header)/sampleSize:
		return nil, status.InvalidArgumentf("Provided channels and frames cannot be encoded as a WAV.")
	}
	size := sampleSize * len(samples)
	le := binary.LittleEndian
	b := append(make([]byte, 0, header+size), "RIFF"...)
	b = append(le.AppendUint32(b, uint32(header+size-8)), "WAVEfmt "...)
	b = le.AppendUint32(b, 16) // size of the format in bytes
	b = le.AppendUint16(b, 1)  // PCM
	b = le.AppendUint16(b, uint16(channels))
	b = le.AppendUint32(b, uint32(hertz))
	b = le.AppendUint32(b, uint32(uint64(hertz)*sampleSize*uint64(channels)))
	b = le.AppendUint16(b, uint16(sampleSize*channels))
	b = le.AppendUint16(b, 8*sampleSize)
	b = le.AppendUint32(append(b, "data"...), uint32(size))
	for _, v := range samples {
		b = le.AppendUint16(b, uint16(sample(v)))
	}
	return b, nil
}

func sample(v float32) int16 {
	if v != v {
		return 0
	}
	return int16(min(max(math.Round(float64(v)*(1<<15)), math.MinInt16), math.MaxInt16))
}
