"""Jobs of several GPUs, as the service and the fleet's analysis tell of them: who trains together, what moving would save."""
