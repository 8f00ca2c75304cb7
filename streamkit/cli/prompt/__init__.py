"""The prompt of `streamkit sql`: how texts are typed, completed and answered."""
