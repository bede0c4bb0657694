package simd

//go:generate go run -C asm . -set elementwise -pkg simd -out ../elementwise_amd64.s -stubs ../elementwise_stubs_amd64.go
//go:generate go run -C asm . -set bfloat16 -pkg simd -out ../bfloat16_amd64.s -stubs ../bfloat16_stubs_amd64.go
//go:generate go run -C asm . -set moves -pkg simd -out ../moves_amd64.s -stubs ../moves_stubs_amd64.go
//go:generate go run -C asm . -set random -pkg simd -out ../random_amd64.s -stubs ../random_stubs_amd64.go
//go:generate go run -C asm . -set math -pkg simd -out ../math_amd64.s -stubs ../math_stubs_amd64.go
//go:generate go run -C asm . -set gemm -pkg simd -out ../gemm_amd64.s -stubs ../gemm_stubs_amd64.go
//go:generate go run -C asm . -set rows -pkg simd -out ../rows_amd64.s -stubs ../rows_stubs_amd64.go
//go:generate go run -C asm . -set filtered -pkg simd -out ../filtered_amd64.s -stubs ../filtered_stubs_amd64.go
//go:generate go run -C asm . -set fourier -pkg simd -out ../fourier_amd64.s -stubs ../fourier_stubs_amd64.go
//go:generate go run -C asm . -set jpeg -pkg simd -out ../jpeg_amd64.s -stubs ../jpeg_stubs_amd64.go
//go:generate go run -C asm ./neon -out ../neon_arm64.s -stubs ../neon_stubs_arm64.go
